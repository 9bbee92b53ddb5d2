#![no_main]
libfuzzer_sys::fuzz_target!(|_bytes: &[u8]| {});
