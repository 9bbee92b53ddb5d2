mod catalog;
mod negotiation;
mod runs;
mod schemas;
