//! Decodes the files of clients: UTF-8 or UTF-16, with or without a byte order mark.

/// `None` if the bytes are in neither encoding.
pub(crate) fn decoded(bytes: Vec<u8>) -> Option<String> {
    match bytes.as_slice() {
        [0xef, 0xbb, 0xbf, text @ ..] => String::from_utf8(text.to_vec()).ok(),
        [0xff, 0xfe, text @ ..] => utf16(text, u16::from_le_bytes),
        [0xfe, 0xff, text @ ..] => utf16(text, u16::from_be_bytes),
        // JSON, YAML and TOML start with an ASCII character.
        [first, 0, ..] if *first != 0 => utf16(&bytes, u16::from_le_bytes),
        [0, second, ..] if *second != 0 => utf16(&bytes, u16::from_be_bytes),
        _ => String::from_utf8(bytes).ok(),
    }
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<String> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let units: Vec<u16> = pairs.iter().map(|pair| unit(*pair)).collect();
    rest.is_empty().then_some(())?;
    String::from_utf16(&units).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_encodings_are_read_and_anything_else_is_none() {
        let text = "{ \"a\": \"é\" }";
        let units = |mark: bool| {
            text.encode_utf16().collect::<Vec<_>>().into_iter().fold(
                if mark { vec![0xfeff] } else { Vec::new() },
                |mut all, unit| {
                    all.push(unit);
                    all
                },
            )
        };
        let with = |mark, bytes: fn(u16) -> [u8; 2]| -> Vec<u8> {
            units(mark).into_iter().flat_map(bytes).collect()
        };
        for bytes in [
            text.as_bytes().to_vec(),
            [b"\xef\xbb\xbf", text.as_bytes()].concat(),
            with(true, u16::to_le_bytes),
            with(true, u16::to_be_bytes),
            with(false, u16::to_le_bytes),
            with(false, u16::to_be_bytes),
        ] {
            assert_eq!(decoded(bytes).as_deref(), Some(text));
        }
        for bytes in [&b"\xff\xfe{"[..], b"\xff", b"\xff\xfe\x00\xd8", b"\xc3("] {
            assert_eq!(decoded(bytes.to_vec()), None, "{bytes:?}");
        }
        assert_eq!(decoded(Vec::new()).as_deref(), Some(""));
    }
}
