//! JSON numbers as exact decimal values. serde_json keeps the text of a number, so that it reaches
//! the tool byte for byte; this module decides which texts have the same value.

use std::{borrow::Cow, cmp::Ordering};

use serde_json::Number;

/// The most digits of a number in a decision: written ones, and those that its exponent adds. The
/// work of schemas and policies grows with them, and `1e-9999` has many in few bytes.
pub const MAX_DIGITS: u64 = 512;

/// A decimal value: `0.DIGITS * 10^point`, without zeros at either end of the digits.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    /// ASCII digits; empty for zero.
    digits: Vec<u8>,
    /// Saturates at a value that no number of at most [`MAX_DIGITS`] reaches.
    point: i64,
}

/// Whether `number` has at most [`MAX_DIGITS`] digits.
pub(crate) fn is_bounded(number: &Number) -> bool {
    let text = number.as_str();
    if text.len() <= 20 && !text.contains(['e', 'E']) {
        return true;
    }
    let written = text.bytes().filter(u8::is_ascii_digit).count() as u64;
    let point = Decimal::of(text).point.unsigned_abs();
    written <= MAX_DIGITS && point <= MAX_DIGITS
}

/// Whether `number` is an integer in JSON Schema, where `1.0` and `1e2` are integers too.
pub fn is_integer(number: &Number) -> bool {
    if is_plain_integer(number.as_str()) {
        return true;
    }
    Decimal::of(number.as_str()).is_integer()
}

/// Returns an integer in plain digits: `100` for `1e2`, `0` for `-0`. Keeps the text of any other
/// number, and of one with more than [`MAX_DIGITS`] digits.
pub fn plain_integer(number: &Number) -> Cow<'_, str> {
    let text = number.as_str();
    if is_plain_integer(text) && text != "-0" {
        return Cow::Borrowed(text);
    }
    let decimal = Decimal::of(text);
    match decimal.is_integer() && decimal.point.unsigned_abs() <= MAX_DIGITS {
        true => {
            let mut out = Vec::new();
            decimal.write_integer(&mut out);
            Cow::Owned(String::from_utf8(out).unwrap_or_default())
        }
        false => Cow::Borrowed(text),
    }
}

/// Compares the values of two numbers.
pub fn compare(one: &Number, other: &Number) -> Ordering {
    match one == other {
        true => Ordering::Equal,
        false => Decimal::of(one.as_str()).compare(&Decimal::of(other.as_str())),
    }
}

/// Appends `number` as RFC 8785 §3.2.2.3 prints it, if that keeps its value. Numbers that a double
/// cannot hold are printed by the same rules with their own digits: integers beyond the exact ones
/// of a double, and numbers that it would make infinite or zero. With `exact`, all other numbers
/// keep their own digits, too.
pub(crate) fn write_canonical(number: &Number, exact: bool, out: &mut Vec<u8>) {
    let text = number.as_str();
    // Each integer of that length is a double, and is printed unchanged.
    if text.len() <= 15 && is_plain_integer(text) && text != "-0" {
        return out.extend_from_slice(text.as_bytes());
    }
    let decimal = Decimal::of(text);
    if decimal.digits.is_empty() {
        return out.push(b'0');
    }
    if let Some(double) = number.as_f64().filter(|double| *double != 0.0) {
        let mut buffer = ryu_js::Buffer::new();
        let shortest = buffer.format_finite(double);
        if (!exact && !decimal.is_integer()) || Decimal::of(shortest) == decimal {
            return out.extend_from_slice(shortest.as_bytes());
        }
    }
    decimal.write(out);
}

fn is_plain_integer(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

// === impl Decimal ===

impl Decimal {
    /// Reads the text of a JSON number.
    fn of(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (negative, mantissa) = match mantissa.strip_prefix('-') {
            Some(mantissa) => (true, mantissa),
            None => (false, mantissa),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = || whole.bytes().chain(fraction.bytes());
        let leading = all().take_while(|digit| *digit == b'0').count();
        let mut digits: Vec<u8> = all().skip(leading).collect();
        digits.truncate(
            digits.len() - digits.iter().rev().take_while(|digit| **digit == b'0').count(),
        );
        if digits.is_empty() {
            return Self { negative: false, digits, point: 0 };
        }
        let exponent = match exponent.strip_prefix('-') {
            Some(digits) => digits.parse().map_or(i64::MIN, |value: i64| -value),
            None => exponent.trim_start_matches('+').parse().unwrap_or(i64::MAX),
        };
        let place = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        let point = exponent.saturating_add(place(whole.len())).saturating_sub(place(leading));
        Self { negative, digits, point }
    }

    fn is_integer(&self) -> bool {
        i64::try_from(self.digits.len()).is_ok_and(|length| length <= self.point.max(0))
    }

    fn compare(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.digits.is_empty(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = || self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        sign(self).cmp(&sign(other)).then_with(|| match sign(self) {
            0 => Ordering::Equal,
            1 => size(),
            _ => size().reverse(),
        })
    }

    /// Writes an integer in plain digits.
    fn write_integer(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        out.extend_from_slice(&self.digits);
        let zeros = usize::try_from(self.point).unwrap_or(0).saturating_sub(self.digits.len());
        out.extend(std::iter::repeat_n(b'0', zeros.max(usize::from(self.digits.is_empty()))));
    }

    /// Writes a number other than zero as ECMAScript's `Number::toString` writes its digits.
    fn write(&self, out: &mut Vec<u8>) {
        /// From this power of ten on, there is an exponent.
        const PLAIN: i64 = 21;
        if self.is_integer() && self.point <= PLAIN {
            return self.write_integer(out);
        }
        if self.negative {
            out.push(b'-');
        }
        match self.point {
            1..=PLAIN => {
                let (whole, fraction) =
                    self.digits.split_at(usize::try_from(self.point).unwrap_or(0));
                out.extend_from_slice(whole);
                out.push(b'.');
                out.extend_from_slice(fraction);
            }
            -5..=0 => {
                out.extend_from_slice(b"0.");
                let zeros = usize::try_from(self.point.unsigned_abs()).unwrap_or(0);
                out.extend(std::iter::repeat_n(b'0', zeros));
                out.extend_from_slice(&self.digits);
            }
            point => {
                let (first, rest) = self.digits.split_at(1);
                out.extend_from_slice(first);
                if !rest.is_empty() {
                    out.push(b'.');
                    out.extend_from_slice(rest);
                }
                let exponent = point.saturating_sub(1);
                out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
                out.extend_from_slice(exponent.unsigned_abs().to_string().as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn number(text: &str) -> Number {
        match serde_json::from_str(text).unwrap() {
            Value::Number(number) => number,
            other => panic!("{other}"),
        }
    }

    fn canonical(text: &str, exact: bool) -> String {
        let mut out = Vec::new();
        write_canonical(&number(text), exact, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_number_keeps_its_text_and_has_one_canonical_form_for_its_value() {
        for (text, expected) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("0e400", "0"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("1E2", "100"),
            ("0.10", "0.1"),
            // As RFC 8785, appendix B and §3.2.2.
            ("333333333.33333329", "333333333.3333333"),
            ("1E30", "1e+30"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("295147905179352830000", "295147905179352830000"),
            // Beyond it: numbers that a double cannot hold.
            ("1915883588174806058", "1915883588174806058"),
            ("9007199254740993", "9007199254740993"),
            ("9007199254740993.0", "9007199254740993"),
            ("-9007199254740993", "-9007199254740993"),
            ("18446744073709551616", "18446744073709551616"),
            ("123456789012345678901", "123456789012345678901"),
            ("1234567890123456789012", "1.234567890123456789012e+21"),
            ("-12345678901234567890120", "-1.234567890123456789012e+22"),
            ("1e400", "1e+400"),
            ("12e400", "1.2e+401"),
            ("1E-400", "1e-400"),
            ("-1.25e-400", "-1.25e-400"),
        ] {
            let read = crate::json::parse_strict(text.as_bytes()).unwrap();
            assert_eq!(read.to_string(), text);
            assert_eq!(canonical(text, false), expected, "{text}");
            assert_eq!(canonical(expected, false), expected, "of its canonical form");
        }
    }

    #[test]
    fn exactly_nothing_is_rounded() {
        for (text, expected) in [
            ("0.1", "0.1"),
            ("0.10000000000000001", "0.10000000000000001"),
            ("333333333.33333329", "333333333.33333329"),
            ("0.00000012345678901234567890", "1.234567890123456789e-7"),
            ("0.0000012345678901234567890", "0.000001234567890123456789"),
            ("12345678901234567890.5", "12345678901234567890.5"),
            ("1e-7", "1e-7"),
            ("1.0", "1"),
        ] {
            assert_eq!(canonical(text, true), expected, "{text}");
        }
    }

    #[test]
    fn integers_are_known_and_plain() {
        for (text, plain) in [
            ("1", "1"),
            ("1.0", "1"),
            ("1e2", "100"),
            ("100E-2", "1"),
            ("-0", "0"),
            ("-0.0", "0"),
            ("-12.50e1", "-125"),
            ("9007199254740993.0", "9007199254740993"),
            ("1e30", "1000000000000000000000000000000"),
        ] {
            assert!(is_integer(&number(text)), "{text}");
            assert_eq!(plain_integer(&number(text)), plain);
        }
        for text in ["1.5", "1e-1", "12.50", "1e-400"] {
            assert!(!is_integer(&number(text)), "{text}");
            assert_eq!(plain_integer(&number(text)), number(text).as_str());
        }
        assert_eq!(plain_integer(&number("1e+512")), "1e+512");
    }

    #[test]
    fn the_order_is_that_of_the_values() {
        let ordered = [
            "-1e400",
            "-18446744073709551617",
            "-18446744073709551616",
            "-2",
            "-1.5",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000001",
            "1",
            "10",
            "9007199254740992",
            "9007199254740993",
            "1e400",
            "1.1e400",
        ];
        for (a, one) in ordered.iter().enumerate() {
            for (b, other) in ordered.iter().enumerate() {
                assert_eq!(compare(&number(one), &number(other)), a.cmp(&b), "{one} {other}");
            }
        }
        assert_eq!(compare(&number("1.0"), &number("10e-1")), Ordering::Equal);
        assert_eq!(compare(&number("-0"), &number("0.0")), Ordering::Equal);
    }

    #[test]
    fn digits_are_bounded_and_any_exponent_is_read() {
        let nines = "9".repeat(512);
        for text in ["1", "1e511", "1e-511", "0e999999999999999999999", &nines] {
            assert!(is_bounded(&number(text)), "{text}");
        }
        for text in ["1e512", "1e-514", "1e99999999999999999999999", &format!("{nines}9")] {
            assert!(!is_bounded(&number(text)), "{text}");
        }
        assert!(is_integer(&number("1e99999999999999999999999")));
        assert!(!is_integer(&number("1e-99999999999999999999999")));
        assert_eq!(canonical("1e-99999999999999999999999", true).len(), "1e-".len() + 19);
    }

    proptest! {
        #[test]
        fn doubles_are_printed_as_rfc_8785_says(bits: u64) {
            let double = f64::from_bits(bits);
            prop_assume!(double.is_finite() && double.abs() < 9e15 || double.abs() > 1e22);
            prop_assume!(double.is_finite());
            let text = ryu_js::Buffer::new().format_finite(double).to_owned();
            for exact in [false, true] {
                prop_assert_eq!(canonical(&text, exact), text.clone());
            }
            // Rust may write another one of two shortest texts.
            prop_assert_eq!(canonical(&format!("{double:e}"), false), text);
        }

        #[test]
        fn equal_values_have_equal_forms(digits in "[1-9][0-9]{0,30}", zeros in 0_usize..9) {
            let plain = format!("{digits}{}", "0".repeat(zeros));
            for text in [format!("{digits}e{zeros}"), format!("{plain}.00"), format!("{plain}0E-1")] {
                prop_assert_eq!(canonical(&text, false), canonical(&plain, false));
                prop_assert_eq!(compare(&number(&text), &number(&plain)), Ordering::Equal);
                prop_assert_eq!(plain_integer(&number(&text)).into_owned(), plain.clone());
            }
        }
    }
}
