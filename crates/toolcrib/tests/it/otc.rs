mod call;
mod checks;
mod health;
mod idempotency;
mod list;
mod oxp;
mod spec;
