mod call;
mod health;
mod list;
