mod call;
mod page;
mod tools;
mod validate;
