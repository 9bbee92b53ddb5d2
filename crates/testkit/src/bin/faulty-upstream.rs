//! An MCP server over stdio with the faults that its arguments select. See `upstream::script`.

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "rmcp") {
        toolcrib_testkit::upstream::good::run_stdio();
    } else {
        toolcrib_testkit::upstream::stdio::run(&words);
    }
}
