//! Tests of the configuration file: what it accepts and refuses, and its schema.
#![cfg(test)]

mod accounts;
mod bridge;
mod config;
mod config_schema;
mod people;
mod support;
