mod call;
mod checks;
mod health;
mod list;
mod once;
mod oxp;
mod spec;
