//! The version of the program: its number, its commit and its features.

use std::sync::LazyLock;

/// The number, and the commit if the program was built in a repository of Git.
pub(crate) static SHORT: LazyLock<String> = LazyLock::new(|| {
    let number = env!("CARGO_PKG_VERSION");
    match env!("TOOLCRIB_COMMIT") {
        "" => number.to_owned(),
        commit => format!("{number} ({commit})"),
    }
});

/// As [`SHORT`], with a line of the features.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let all = [
        ("cedar", cfg!(feature = "cedar")),
        ("jemalloc", cfg!(feature = "jemalloc")),
        ("otel", cfg!(feature = "otel")),
        ("postgres", cfg!(feature = "postgres")),
        ("redis", cfg!(feature = "redis")),
        ("test-routes", cfg!(feature = "test-routes")),
        ("wasm", cfg!(feature = "wasm")),
    ];
    let built: Vec<&str> =
        all.iter().filter(|(_, is_built)| *is_built).map(|feature| feature.0).collect();
    let features = if built.is_empty() { "none".to_owned() } else { built.join(", ") };
    format!("{}\nfeatures: {features}", *SHORT)
});
