//! The reasons why a schema has no compact form.

/// Why a schema has no compact form. Positions are JSON pointers into the schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompactError {
    /// A keyword without an equivalent that avoids combining schemas.
    #[error("`{keyword}` cannot be expressed without combining schemas")]
    Keyword {
        /// The keyword, such as `anyOf`.
        keyword: String,
    },
    /// A reference in a cycle.
    #[error("a reference leads back to itself")]
    Recursive,
    /// A reference without a target in the document.
    #[error("a reference leads out of the schema or nowhere")]
    Unresolved,
    /// Two schemas that both apply and that one schema cannot express.
    #[error("`{keyword}` of two schemas that both apply cannot be merged")]
    Conflict {
        /// The keyword.
        keyword: String,
    },
    /// The arguments are not an object.
    #[error("the arguments are not described as an object")]
    NotAnObject,
    /// A draft whose keywords have another meaning.
    #[error("the `$schema` is of an old or unknown draft")]
    Draft,
    /// Past [`MAX_NODES`](super::MAX_NODES), [`MAX_DEPTH`](super::MAX_DEPTH) or
    /// [`MAX_BYTES`](super::MAX_BYTES).
    #[error("the schema is too large or too deep")]
    TooLarge,
}

impl CompactError {
    pub(super) fn keyword(keyword: &str) -> Self {
        Self::Keyword { keyword: keyword.to_owned() }
    }

    pub(super) fn conflict(keyword: &str) -> Self {
        Self::Conflict { keyword: keyword.to_owned() }
    }
}
