//! The context of a command: the options of every command, and the printer.

use crate::{args::Global, printer::Printer};

/// The options of every command, and the printer for the output.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: Global,
    pub(crate) printer: Printer,
}
