//! The context of a command: the options of every command, and the printer.

use crate::{args::GlobalOptions, printer::Printer};

/// The options of every command, and the printer for the output.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) global: GlobalOptions,
    pub(crate) printer: Printer,
}
