//! Tokens of strangers, and the key sets of issuers.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|sent: &[u8]| toolcrib_gateway::fuzzing::token(sent));
