mod approvals;
mod by_id;
mod discovery;
mod events;
mod seams;
mod tools;
