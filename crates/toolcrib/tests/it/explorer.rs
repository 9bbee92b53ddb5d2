mod call;
mod page;
mod policy;
mod sign_in;
mod tools;
mod validate;
