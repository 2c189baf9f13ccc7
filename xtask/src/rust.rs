//! Rust source without its comments, strings and character literals: what is left is code.
//!
//! Shape:      text -> text of the same lines, every blanked character a space
//! Invariants: line numbers stay; nothing inside a literal or a comment remains
//! Non-goals:  parsing; macros are taken as they are written

/// `text` with comments and literals blanked.
pub(crate) fn code_only(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = token_end(&chars, at);
        match end {
            Some(end) => {
                code.extend(chars[at..end].iter().map(|&c| if c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                code.push(chars[at]);
                at += 1;
            }
        }
    }
    code
}

/// Lines of `code` (see [`code_only`]) that hold `word` as a whole word; lines count from 1.
pub(crate) fn lines_with_word(code: &str, word: &str) -> Vec<usize> {
    let holds = |line: &str| {
        line.match_indices(word).any(|(start, _)| {
            let before = line[..start].chars().next_back();
            let after = line[start + word.len()..].chars().next();
            !before.is_some_and(is_word) && !after.is_some_and(is_word)
        })
    };
    (1..).zip(code.lines()).filter(|(_, line)| holds(line)).map(|(number, _)| number).collect()
}

/// Whether `c` can be part of an identifier.
pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Where the comment or literal that begins at `at` ends; `None` if code begins there.
fn token_end(chars: &[char], at: usize) -> Option<usize> {
    let rest = &chars[at..];
    let inside_word = at > 0 && is_word(chars[at - 1]);
    match rest {
        ['/', '/', ..] => Some(at + rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())),
        ['/', '*', ..] => Some(at + block_comment(rest)),
        ['"', ..] => Some(at + 1 + quoted(&rest[1..], '"')),
        ['r', '"' | '#', ..] if !inside_word => raw_string(&rest[1..]).map(|len| at + 1 + len),
        ['b' | 'c', 'r', '"' | '#', ..] if !inside_word => raw_string(&rest[2..]).map(|len| at + 2 + len),
        ['\'', '\\', ..] => Some(at + 1 + quoted(&rest[1..], '\'')),
        ['\'', _, '\'', ..] => Some(at + 3),
        _ => None,
    }
}

fn block_comment(rest: &[char]) -> usize {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length up to and with the closing quote.
fn quoted(rest: &[char], quote: char) -> usize {
    let mut at = 0;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// Length of `##"…"##`; `None` if this is a raw identifier and no string.
fn raw_string(rest: &[char]) -> Option<usize> {
    let hashes = rest.iter().take_while(|&&c| c == '#').count();
    if rest.get(hashes) != Some(&'"') {
        return None;
    }
    let mut at = hashes + 1;
    while at < rest.len() {
        let closes = rest[at] == '"' && rest[at + 1..].iter().take_while(|&&c| c == '#').count() >= hashes;
        at += 1;
        if closes {
            return Some(at + hashes);
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(code_only(text).split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
    }

    #[test]
    fn comments_and_literals_disappear() {
        check("a // unsafe\nb", "a b");
        check("a /* x /* y */ z */ b", "a b");
        check(r#"f("unsafe \" quoted") + 1"#, "f( ) + 1");
        check(r##"f(r#"unsafe " x"#) + 1"##, "f( ) + 1");
        check("f(br\"a\\\", b\"c\")", "f( , b )");
        check("'a' '\\'' '\"' x", "x");
    }

    #[test]
    fn lifetimes_and_raw_identifiers_stay() {
        check("fn f<'a>(x: &'a str)", "fn f<'a>(x: &'a str)");
        check("r#type + for\"\"", "r#type + for");
    }

    #[test]
    fn unclosed_tokens_end_with_the_text() {
        for text in ["/* a", "\"a", "\"a\\", "r#\"a\"", "'\\"] {
            check(text, "");
        }
    }

    #[test]
    fn words_are_whole_and_lines_keep_their_numbers() {
        let code = code_only("#![deny(unsafe_code)]\n/* a\n b */ unsafe { x }\n\"\n unsafe\" unsafely");
        assert_eq!(lines_with_word(&code, "unsafe"), [3]);
    }
}
