//! MCP messages on both faces: from a client, and from an upstream in pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    toolcrib::fuzzing::mcp_frame(frame);
    toolcrib_sources::fuzzing::mcp_frame(frame);
});
