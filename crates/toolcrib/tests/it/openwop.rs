mod approvals;
mod by_id;
mod description;
mod discovery;
mod events;
mod test_routes;
mod tools;
