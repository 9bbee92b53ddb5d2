mod call;
mod page;
mod policy;
mod tools;
mod validate;
