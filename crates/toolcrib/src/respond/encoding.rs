//! Content encodings of cached bodies: the first request for a form creates it. A body that is sent
//! only once is never encoded.

use std::io::Write as _;

use bytes::Bytes;
use http::{HeaderMap, header};
use toolcrib_core::catalog::{Body, EncodedForm};

/// The supported encodings, the smallest result first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Brotli,
    Zstd,
    Gzip,
}

const OFFERED: [Encoding; 3] = [Encoding::Brotli, Encoding::Zstd, Encoding::Gzip];

/// Bytes below which a body fits into one packet anyway.
const WORTH_IT: usize = 1_024;

impl Encoding {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Gzip => "gzip",
        }
    }

    /// The client's preferred encoding among the supported ones; `None` for no encoding.
    fn accepted(request: &HeaderMap) -> Option<Self> {
        let mut best: Option<(u16, Self)> = None;
        for encoding in OFFERED {
            let weight = weight(request, encoding.name());
            if weight > 0 && best.is_none_or(|(most, _)| weight > most) {
                best = Some((weight, encoding));
            }
        }
        best.map(|(_, encoding)| encoding)
    }

    fn encode(self, bytes: &[u8]) -> std::io::Result<Vec<u8>> {
        match self {
            Self::Brotli => {
                let mut writer = brotli::CompressorWriter::new(Vec::new(), 1 << 14, 5, 20);
                writer.write_all(bytes)?;
                writer.flush()?;
                Ok(writer.into_inner())
            }
            Self::Zstd => zstd::bulk::compress(bytes, 6),
            Self::Gzip => {
                let mut writer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                writer.write_all(bytes)?;
                writer.finish()
            }
        }
    }
}

/// Selects the form of `body` that suits `request`; `None` if the body itself suits best.
pub(super) fn suited<'a>(
    request: &HeaderMap,
    body: &'a Body,
) -> Option<(Encoding, &'a EncodedForm)> {
    let encoded = body.encoded.as_ref().filter(|_| body.bytes.len() >= WORTH_IT)?;
    if !request.contains_key(header::ACCEPT_ENCODING) {
        return None;
    }
    let encoding = Encoding::accepted(request)?;
    let form = encoded.get(encoding as usize, || {
        form(body, encoding, encoding.encode(&body.bytes).ok()?.into())
    })?;
    Some((encoding, form))
}

/// Bytes that were compressed when the program was built.
pub(crate) struct CompressedBytes {
    pub(crate) plain: &'static [u8],
    pub(crate) brotli: &'static [u8],
    pub(crate) gzip: &'static [u8],
}

impl CompressedBytes {
    /// Converts them to a body with known forms.
    pub(crate) fn body(&self) -> Body {
        let body = Body::new(Bytes::from_static(self.plain));
        let known = [(Encoding::Brotli, self.brotli), (Encoding::Gzip, self.gzip)];
        for (encoding, bytes) in known {
            if let Some(encoded) = &body.encoded {
                encoded.get(encoding as usize, || form(&body, encoding, Bytes::from_static(bytes)));
            }
        }
        body
    }
}

/// Creates a form of `body`; `None` if it is no smaller.
fn form(body: &Body, encoding: Encoding, bytes: Bytes) -> Option<EncodedForm> {
    let tag = body.etag.trim_matches('"');
    let etag = format!("\"{tag}-{}\"", encoding.name());
    (bytes.len() < body.bytes.len()).then_some(EncodedForm { bytes, etag })
}

/// The client's weight of `name`, in thousandths; 0 if it is not accepted (RFC 9110, section
/// 12.5.3).
fn weight(request: &HeaderMap, name: &str) -> u16 {
    let mut any = 0;
    for value in request.get_all(header::ACCEPT_ENCODING) {
        for item in value.to_str().unwrap_or_default().split(',') {
            let (coding, parameters) = item.split_once(';').unwrap_or((item, ""));
            let coding = coding.trim();
            if coding.eq_ignore_ascii_case(name) || (name == "gzip" && coding == "x-gzip") {
                return quality(parameters);
            }
            if coding == "*" {
                any = quality(parameters);
            }
        }
    }
    any
}

/// Parses `q=0.5` in thousandths; an invalid weight counts as 0.
fn quality(parameters: &str) -> u16 {
    let Some(text) = parameters.split(';').map(str::trim).find_map(|parameter| {
        parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="))
    }) else {
        return 1_000;
    };
    match text.parse::<f32>() {
        Ok(quality) if (0.0..=1.0).contains(&quality) => {
            // The value is in range, so neither sign nor size is lost.
            (quality * 1_000.0).round() as u16
        }
        Ok(_) | Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn accepted(values: &[&'static str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
        }
        Encoding::accepted(&headers).map(Encoding::name)
    }

    #[test]
    fn the_best_accepted_encoding_is_chosen() {
        for (values, chosen) in [
            (&[][..], None),
            (&["gzip, deflate, br, zstd"], Some("br")),
            (&["gzip, deflate"], Some("gzip")),
            (&["GZIP"], Some("gzip")),
            (&["x-gzip"], Some("gzip")),
            (&["br;q=0.5, zstd;q=0.8"], Some("zstd")),
            (&["br; q=0", "gzip;q=0.001"], Some("gzip")),
            (&["*"], Some("br")),
            (&["br;q=0, *;q=0.3"], Some("zstd")),
            (&["identity"], None),
            (&["*;q=0"], None),
            (&["br;q=2, zstd;q=x"], None),
            (&["deflate"], None),
        ] {
            assert_eq!(accepted(values), chosen, "{values:?}");
        }
    }

    #[test]
    fn every_encoding_can_be_undone() {
        let text = "a list of tools ".repeat(500);
        let undone = |encoding: Encoding| {
            let bytes = encoding.encode(text.as_bytes()).unwrap();
            let mut out = Vec::new();
            match encoding {
                Encoding::Brotli => {
                    brotli::BrotliDecompress(&mut bytes.as_slice(), &mut out).unwrap();
                }
                Encoding::Zstd => out = zstd::bulk::decompress(&bytes, text.len()).unwrap(),
                Encoding::Gzip => {
                    let mut reader = flate2::read::GzDecoder::new(bytes.as_slice());
                    std::io::Read::read_to_end(&mut reader, &mut out).unwrap();
                }
            }
            String::from_utf8(out).unwrap()
        };
        for encoding in OFFERED {
            assert_eq!(undone(encoding), text, "{encoding:?}");
        }
    }

    #[test]
    fn what_is_sent_once_or_small_is_sent_as_it_is() {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
        let long = "x".repeat(WORTH_IT);
        let small = Body::new("x".repeat(WORTH_IT - 1));
        assert!(suited(&headers, &Body::once(long.clone())).is_none());
        assert!(suited(&headers, &small).is_none());
        let kept = Body::new(long);
        let (encoding, form) = suited(&headers, &kept).unwrap();
        assert_eq!(encoding, Encoding::Gzip);
        assert!(form.bytes.len() < kept.bytes.len());
        assert_ne!(form.etag, kept.etag);
        assert!(suited(&HeaderMap::new(), &kept).is_none());
    }
}
