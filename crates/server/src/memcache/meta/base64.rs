//! Base64 of keys, as memcached reads and writes it.
//!
//! Source: RFC 4648 §4; memcached skips what is no digit of base64

use crate::limits::KEY_MAX;

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// The value of a digit; padding is 0, everything else none.
fn digit(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        b'=' => 0,
        _ => return None,
    };
    Some(u32::from(value))
}

/// Decodes a key. None if it is none: no multiple of four digits, too much padding, nothing in it.
pub(crate) fn decode<'o>(text: &[u8], out: &'o mut [u8; KEY_MAX]) -> Option<&'o [u8]> {
    let digits = text.iter().filter(|letter| digit(**letter).is_some()).count();
    if digits == 0 || digits % 4 != 0 || KEY_MAX < digits / 4 * 3 {
        return None;
    }
    let (mut len, mut word, mut count, mut padding) = (0, 0, 0, 0_usize);
    for letter in text {
        let Some(value) = digit(*letter) else { continue };
        padding += usize::from(*letter == b'=');
        word = word << 6 | value;
        count += 1;
        if count == 4 {
            out[len..len + 3].copy_from_slice(&word.to_be_bytes()[1..]);
            len += 3;
            (word, count) = (0, 0);
            if 0 < padding {
                // The end, whatever follows.
                len = len.checked_sub(padding).filter(|_| padding <= 2)?;
                break;
            }
        }
    }
    (0 < len).then(|| &out[..len])
}

/// Appends the base64 of some bytes.
pub(crate) fn encode_into(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let mut three = [0; 4];
        three[1..=group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes(three);
        for i in 0..4 {
            let letter = DIGITS[(word >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= group.len() { letter } else { b'=' });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        decode(text, &mut [0; KEY_MAX]).map(<[u8]>::to_vec)
    }

    #[test]
    fn what_is_no_digit_is_skipped_and_what_is_no_base64_refused() {
        for (text, key) in [
            (b"YQ==".as_slice(), Some(b"a".as_slice())),
            (b"YWI=", Some(b"ab")),
            (b"YWJj", Some(b"abc")),
            (b"YQ=*=", Some(b"a")),
            (b"YQ", None),
            (b"a", None),
            (b"====", None),
            (b"", None),
        ] {
            assert_eq!(decoded(text).as_deref(), key, "{}", String::from_utf8_lossy(text));
        }
    }

    proptest! {
        #[test]
        fn every_key_comes_back(key in proptest::collection::vec(any::<u8>(), 1..187)) {
            let mut text = Vec::new();
            encode_into(&key, &mut text);
            prop_assert_eq!(decoded(&text), Some(key));
        }

        #[test]
        fn nothing_panics(text in proptest::collection::vec(any::<u8>(), 0..250)) {
            let _any = decoded(&text);
        }
    }
}
