//! Bodies of Open Tool Calling and OXP.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| toolcrib::fuzzing::otc_body(body));
