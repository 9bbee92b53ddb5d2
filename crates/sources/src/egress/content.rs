//! The content coding of a response (RFC 9110, section 8.4).
//!
//! Invariant: the size of a piece is bounded for any degree of compression, so that the reader can stop at
//! its own limit.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, header};

use super::EgressError;

/// The codings that are decoded.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip");
/// Compressed bytes that are decoded at once, to at most a megabyte of content.
const STEP: usize = 1_024;

/// Decodes a body.
pub(super) enum Content {
    Plain(Option<Bytes>),
    Gzip { decoder: Box<MultiGzDecoder<Vec<u8>>>, coded: Bytes, is_empty: bool },
}

impl Content {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let coding = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
        match coding.map(|coding| coding.trim().to_ascii_lowercase()).as_deref() {
            Some("gzip" | "x-gzip") => Self::Gzip {
                decoder: Box::new(MultiGzDecoder::new(Vec::new())),
                coded: Bytes::new(),
                is_empty: true,
            },
            // Another coding was not requested; its bytes are passed on.
            Some(_) | None => Self::Plain(None),
        }
    }

    /// Takes the next bytes of the body, after [`next`](Self::next) has returned `None`.
    pub(super) fn put(&mut self, data: Bytes) {
        match self {
            Self::Plain(piece) => *piece = Some(data),
            Self::Gzip { coded, is_empty, .. } => {
                *is_empty &= data.is_empty();
                *coded = data;
            }
        }
    }

    /// Returns the next piece of the content; `None` when more of the body is needed.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, EgressError> {
        let (decoder, coded) = match self {
            Self::Plain(piece) => return Ok(piece.take()),
            Self::Gzip { decoder, coded, .. } => (decoder, coded),
        };
        while !coded.is_empty() {
            let mut step = coded.split_to(coded.len().min(STEP));
            while step.has_remaining() {
                let used = decoder.write(&step).map_err(|_| broken())?;
                if used == 0 {
                    return Err(broken());
                }
                step.advance(used);
            }
            let piece = std::mem::take(decoder.get_mut());
            if !piece.is_empty() {
                return Ok(Some(piece.into()));
            }
        }
        Ok(None)
    }

    /// Returns the last piece after the end of the body. Fails when the content has not ended. A body
    /// without any bytes has no content.
    pub(super) fn finish(&mut self) -> Result<Option<Bytes>, EgressError> {
        let last = match self {
            Self::Gzip { decoder, is_empty: false, .. } => {
                decoder.try_finish().map_err(|_| broken())?;
                std::mem::take(decoder.get_mut())
            }
            Self::Gzip { .. } | Self::Plain(_) => Vec::new(),
        };
        *self = Self::Plain(None);
        Ok((!last.is_empty()).then(|| last.into()))
    }
}

fn broken() -> EgressError {
    EgressError::Broken("the compressed body is damaged".to_owned())
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn decoded(body: &[u8], chunk: usize) -> Result<Vec<u8>, EgressError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        let (mut content, mut all) = (Content::of(&headers), Vec::new());
        for data in body.chunks(chunk) {
            content.put(Bytes::copy_from_slice(data));
            while let Some(piece) = content.next()? {
                assert!(piece.len() <= 2 << 20, "a piece of {} bytes", piece.len());
                all.extend_from_slice(&piece);
            }
        }
        all.extend_from_slice(&content.finish()?.unwrap_or_default());
        Ok(all)
    }

    #[test]
    fn a_compressed_body_is_read_in_bounded_pieces() {
        let text = b"{\"a\": [1, 2, 3]}".repeat(1_000);
        for chunk in [1, 7, 4_096] {
            assert_eq!(decoded(&gzip(&text), chunk).unwrap(), text, "{chunk}");
        }
        let zeros = vec![0; 20 << 20];
        assert_eq!(decoded(&gzip(&zeros), 1 << 20).unwrap().len(), zeros.len());
        assert_eq!(decoded(b"", 10).unwrap(), b"");
    }

    #[test]
    fn a_damaged_body_is_an_error() {
        let body = gzip(&b"some text that is cut".repeat(10));
        assert!(decoded(&body[..body.len() - 12], 16).is_err(), "it is cut");
        assert!(decoded(b"{\"a\":1}", 16).is_err(), "it is not compressed");
    }
}
