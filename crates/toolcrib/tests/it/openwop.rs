mod approvals;
mod by_id;
mod description;
mod discovery;
mod events;
mod seams;
mod tools;
