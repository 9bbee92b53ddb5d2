//! The program behind and between other programs, which `cargo xtask test` installs.

mod proxies;
