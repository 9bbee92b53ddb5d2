mod catalog;
mod every_answer;
mod negotiation;
mod runs;
mod schemas;
