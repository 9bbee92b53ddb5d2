//! The content coding of a response (RFC 9110, section 8.4).
//!
//! Invariant: the size of a piece is bounded for any degree of compression, so that the reader can
//! stop at its own limit.
//! Invariant: the content before the place where a body is damaged is returned.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::write::MultiGzDecoder;
use http::{HeaderMap, HeaderValue, header};

/// The codings that are decoded.
pub(super) const ACCEPTED: HeaderValue = HeaderValue::from_static("gzip");
/// Compressed bytes that are decoded at once, to at most a megabyte of content.
const STEP: usize = 1_024;
/// The first bytes of every gzip file (RFC 1952, section 2.3.1).
const MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Decodes a body.
pub(super) struct Content {
    form: Form,
    flaw: Option<Flaw>,
}

/// A problem of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flaw {
    /// The body is passed on unchanged.
    #[error("it is declared as gzip, but is not compressed")]
    NotCompressed,
    /// The rest is missing.
    #[error("its compression (gzip) is damaged or cut off, so the rest is missing")]
    Damaged,
    /// The body is passed on unchanged.
    #[error("its content coding is not gzip, which alone was accepted, so it is not decoded")]
    UnknownCoding,
    /// The rest is missing.
    #[error("the connection broke before its end, so the rest is missing")]
    Incomplete,
}

enum Form {
    Plain(Option<Bytes>),
    /// Declared as gzip; the first bytes have not confirmed it yet.
    Declared(Vec<u8>),
    Gzip {
        decoder: Box<MultiGzDecoder<Vec<u8>>>,
        coded: Bytes,
    },
}

impl Content {
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let coding = headers.get(header::CONTENT_ENCODING).map(|value| value.to_str());
        let coding = coding.map(|coding| coding.unwrap_or_default().trim().to_ascii_lowercase());
        match coding.as_deref() {
            Some("gzip" | "x-gzip") => Self { form: Form::Declared(Vec::new()), flaw: None },
            None | Some("" | "identity") => Self { form: Form::Plain(None), flaw: None },
            Some(_) => Self { form: Form::Plain(None), flaw: Some(Flaw::UnknownCoding) },
        }
    }

    /// The problem of the part of the body that was read.
    pub(super) fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    /// Adds the next bytes of the body. Call it only after [`next`](Self::next) has returned
    /// `None`.
    pub(super) fn put(&mut self, data: Bytes) {
        match &mut self.form {
            Form::Plain(piece) => *piece = Some(data),
            Form::Gzip { coded, .. } => *coded = data,
            Form::Declared(start) => {
                start.extend_from_slice(&data);
                if start.len() >= MAGIC.len() {
                    self.decide();
                }
            }
        }
    }

    fn decide(&mut self) {
        let Form::Declared(start) = &mut self.form else { return };
        let coded = Bytes::from(std::mem::take(start));
        if coded.starts_with(&MAGIC) {
            let decoder = Box::new(MultiGzDecoder::new(Vec::new()));
            self.form = Form::Gzip { decoder, coded };
        } else {
            self.flaw = Some(Flaw::NotCompressed);
            self.form = Form::Plain(Some(coded));
        }
    }

    /// Returns the next piece of the content; `None` when more of the body is needed, or when it is
    /// damaged.
    pub(super) fn next(&mut self) -> Option<Bytes> {
        let (decoder, coded) = match &mut self.form {
            Form::Plain(piece) => return piece.take(),
            Form::Declared(_) => return None,
            Form::Gzip { decoder, coded } => (decoder, coded),
        };
        while !coded.is_empty() {
            let mut step = coded.split_to(coded.len().min(STEP));
            while step.has_remaining() {
                match decoder.write(&step) {
                    Ok(used) if used > 0 => step.advance(used),
                    Ok(_) | Err(_) => {
                        let last = self.finish();
                        self.flaw = Some(Flaw::Damaged);
                        return last;
                    }
                }
            }
            let piece = std::mem::take(decoder.get_mut());
            if !piece.is_empty() {
                return Some(piece.into());
            }
        }
        None
    }

    /// Returns the last piece after the end of the body. If its content is incomplete, the body is
    /// damaged. A body without any bytes has no content.
    pub(super) fn finish(&mut self) -> Option<Bytes> {
        let last = match std::mem::replace(&mut self.form, Form::Plain(None)) {
            Form::Plain(piece) => return piece,
            Form::Declared(start) => {
                if !start.is_empty() {
                    self.flaw = Some(Flaw::NotCompressed);
                }
                start
            }
            Form::Gzip { mut decoder, .. } => {
                if decoder.try_finish().is_err() {
                    self.flaw = Some(Flaw::Damaged);
                }
                std::mem::take(decoder.get_mut())
            }
        };
        (!last.is_empty()).then(|| last.into())
    }
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

    fn decoded(coding: &'static str, body: &[u8], chunk: usize) -> (Vec<u8>, Option<Flaw>) {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        let (mut content, mut all) = (Content::of(&headers), Vec::new());
        for data in body.chunks(chunk) {
            content.put(Bytes::copy_from_slice(data));
            while let Some(piece) = content.next() {
                assert!(piece.len() <= 2 << 20, "a piece of {} bytes", piece.len());
                all.extend_from_slice(&piece);
            }
            if content.flaw() == Some(Flaw::Damaged) {
                return (all, content.flaw());
            }
        }
        all.extend_from_slice(&content.finish().unwrap_or_default());
        (all, content.flaw())
    }

    #[test]
    fn a_compressed_body_is_read_in_bounded_pieces() {
        let text = b"{\"a\": [1, 2, 3]}".repeat(1_000);
        for chunk in [1, 7, 4_096] {
            assert_eq!(decoded("gzip", &gzip(&text), chunk), (text.clone(), None), "{chunk}");
        }
        let zeros = vec![0; 20 << 20];
        assert_eq!(decoded("gzip", &gzip(&zeros), 1 << 20), (zeros, None));
        assert_eq!(decoded("gzip", b"", 10), (Vec::new(), None));
    }

    #[test]
    fn what_can_be_read_of_a_flawed_body_is_returned() {
        let text: Vec<u8> = (0..20_000_u32).flat_map(|n| n.to_string().into_bytes()).collect();
        let body = gzip(&text);
        for chunk in [1, 16, 4_096] {
            for cut in [body.len() / 2, body.len() - 12, body.len() - 1] {
                let (read, flaw) = decoded("gzip", &body[..cut], chunk);
                assert_eq!(flaw, Some(Flaw::Damaged), "{cut}");
                assert!(text.starts_with(&read), "{cut}");
                assert!(read.len() > text.len() / 4, "{} of {cut}", read.len());
            }
            let mut broken = body.clone();
            let middle = broken.len() / 2;
            broken[middle..middle + 64].fill(0xff);
            let (read, flaw) = decoded("gzip", &broken, chunk);
            assert_eq!(flaw, Some(Flaw::Damaged));
            assert!(read.len() > text.len() / 4, "{} bytes", read.len());
            for plain in [b"{\"a\":1}" as &[u8], b"1", b"\x1f"] {
                let expected = (plain.to_vec(), Some(Flaw::NotCompressed));
                assert_eq!(decoded("gzip", plain, chunk), expected);
            }
            let other = decoded("br", b"\x0b\x02\x80", chunk);
            assert_eq!(other, (b"\x0b\x02\x80".to_vec(), Some(Flaw::UnknownCoding)));
        }
        assert_eq!(decoded("identity", b"a", 1), (b"a".to_vec(), None));
    }
}
