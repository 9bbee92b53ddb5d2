//! MCP messages on both faces: as frames, from a client, and from an upstream.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|frame: &[u8]| {
    toolcrib_mcp::fuzzing::frame(frame);
    toolcrib::fuzzing::mcp_frame(frame);
    toolcrib_sources::fuzzing::mcp_frame(frame);
});
