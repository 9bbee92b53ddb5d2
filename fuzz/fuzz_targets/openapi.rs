//! OpenAPI documents, and the requests that hostile arguments make of their operations.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|document: &[u8]| toolcrib_sources::fuzzing::openapi(document));
