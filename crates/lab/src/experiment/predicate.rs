//! A predicate: what is expected of the numbers of a run, written down before it.
//!
//! Shape:      predicate = chain { "and" chain }; chain = sum op sum { op sum }; op = `<` `<=` `>` `>=`;
//!             sum = product { (`+` | `-`) product }; product = atom { (`*` | `/`) atom };
//!             atom = number | name | `-` atom | `(` sum `)`
//! Names:      `ours` and `paper` are those of the item itself, every other name is the number of another item
//! Invariants: sides are linear in the names; a comparison that no number can change is refused
//! Failure:    a malformed predicate is an error with the position of the character, from 0

use crate::limits::PREDICATE_CHARS_MAX;
use std::collections::BTreeMap;
use std::fmt;

/// One predicate.
#[derive(Clone, PartialEq, Debug)]
pub struct Predicate {
    text: String,
    comparisons: Vec<Comparison>,
}

/// What is wrong with a predicate, and at which character, from 0.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{what}")]
pub struct PredicateError {
    /// Position of the character.
    pub at: usize,
    /// What is wrong there.
    pub what: String,
}

/// `difference` is below zero, or at most zero.
#[derive(Clone, PartialEq, Debug)]
struct Comparison {
    difference: Linear,
    strict: bool,
}

/// A constant and a factor per name.
#[derive(Clone, PartialEq, Debug, Default)]
struct Linear {
    constant: f64,
    factors: BTreeMap<String, f64>,
}

impl Predicate {
    /// Reads a predicate.
    ///
    /// # Errors
    /// If the text is not one, or no number could make it false.
    pub fn parse(text: &str) -> Result<Self, PredicateError> {
        let end = text.chars().count();
        if PREDICATE_CHARS_MAX < end {
            let what = format!("longer than {PREDICATE_CHARS_MAX} characters");
            return Err(PredicateError { at: PREDICATE_CHARS_MAX, what });
        }
        let mut parser = Parser { words: words(text)?, at: 0, end };
        let mut comparisons = Vec::new();
        loop {
            parser.chain(&mut comparisons)?;
            match parser.next() {
                None => return Ok(Self { text: text.trim().to_owned(), comparisons }),
                Some(Word::Name(and)) if and == "and" => {}
                Some(word) => return Err(parser.fault(format!("'{word}' where the predicate should end"))),
            }
        }
    }

    /// The names that it compares, `ours` and `paper` included.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.comparisons.iter().flat_map(|c| c.difference.factors.keys()).map(String::as_str)
    }

    /// The first name for which `value` has no number.
    pub(super) fn missing(&self, value: &dyn Fn(&str) -> Option<f64>) -> Option<&str> {
        self.names().find(|name| value(name).is_none_or(|number| !number.is_finite()))
    }

    /// Whether it holds where `value` gives the number of a name.
    ///
    /// # Errors
    /// The name that has no number.
    pub fn holds(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<bool, String> {
        let mut holds = true;
        for comparison in &self.comparisons {
            let difference = comparison.difference.at(value)?;
            holds &= difference < 0.0 || (!comparison.strict && difference <= 0.0);
        }
        Ok(holds)
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Linear {
    fn at(&self, value: &dyn Fn(&str) -> Option<f64>) -> Result<f64, String> {
        let terms = self.factors.iter().map(|(name, factor)| {
            value(name).filter(|v| v.is_finite()).map(|v| v * factor).ok_or_else(|| name.clone())
        });
        terms.sum::<Result<f64, String>>().map(|sum| sum + self.constant)
    }

    /// Whether it has a number of the run, which what the paper printed is not.
    fn follows_the_run(&self) -> bool {
        self.factors.iter().any(|(name, factor)| 0.0 < factor.abs() && name != "paper")
    }

    fn plus(mut self, other: &Self, times: f64) -> Self {
        self.constant += other.constant * times;
        for (name, factor) in &other.factors {
            *self.factors.entry(name.clone()).or_default() += factor * times;
        }
        self
    }

    fn times(self, by: f64) -> Self {
        Self::default().plus(&self, by)
    }
}

/// A word of a predicate.
#[derive(Clone, PartialEq, Debug)]
enum Word {
    Number(f64),
    Name(String),
    Sign(char),
    Compare { less: bool, strict: bool },
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => f.write_str(name),
            Self::Sign(sign) => write!(f, "{sign}"),
            Self::Compare { less, strict } => {
                write!(f, "{}{}", if *less { '<' } else { '>' }, if *strict { "" } else { "=" })
            }
        }
    }
}

fn words(text: &str) -> Result<Vec<(usize, Word)>, PredicateError> {
    let chars: Vec<char> = text.chars().collect();
    let mut words = Vec::new();
    let mut at = 0;
    while let Some(&first) = chars.get(at) {
        let run = |is_inside: fn(char) -> bool| {
            let len = chars[at..].iter().take_while(|&&c| is_inside(c)).count();
            chars[at..at + len].iter().collect::<String>()
        };
        let (len, word) = match first {
            ' ' => {
                at += 1;
                continue;
            }
            '0'..='9' => {
                let digits = run(|c| c.is_ascii_digit() || c == '.' || c == '_');
                let number = digits
                    .replace('_', "")
                    .parse()
                    .map_err(|_| PredicateError { at, what: format!("'{digits}' is no number") })?;
                (digits.len(), Word::Number(number))
            }
            'a'..='z' | 'A'..='Z' => {
                let name = run(is_name);
                (name.len(), Word::Name(name))
            }
            '+' | '-' | '*' | '/' | '(' | ')' => (1, Word::Sign(first)),
            '<' | '>' => {
                let strict = chars.get(at + 1) != Some(&'=');
                (2 - usize::from(strict), Word::Compare { less: first == '<', strict })
            }
            other => return Err(PredicateError { at, what: format!("'{other}' has no meaning here") }),
        };
        words.push((at, word));
        at += len;
    }
    Ok(words)
}

/// Whether `c` may stand in the name of an item, after its first letter.
pub(super) fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

struct Parser {
    words: Vec<(usize, Word)>,
    /// The next word.
    at: usize,
    /// Characters of the text.
    end: usize,
}

impl Parser {
    fn peek(&self) -> Option<&Word> {
        self.words.get(self.at).map(|(_, word)| word)
    }

    fn next(&mut self) -> Option<Word> {
        let word = self.peek().cloned();
        self.at += 1;
        word
    }

    /// `what` is wrong with the word taken last.
    fn fault(&self, what: impl Into<String>) -> PredicateError {
        let place = self.at.checked_sub(1).and_then(|last| self.words.get(last));
        PredicateError { at: place.map_or(self.end, |(at, _)| *at), what: what.into() }
    }

    fn chain(&mut self, comparisons: &mut Vec<Comparison>) -> Result<(), PredicateError> {
        let mut left = self.sum()?;
        let mut compared = false;
        while let Some(&Word::Compare { less, strict }) = self.peek() {
            self.at += 1;
            let right = self.sum()?;
            let difference = if less { left.plus(&right, -1.0) } else { right.clone().plus(&left, -1.0) };
            if !difference.follows_the_run() {
                return Err(self.fault("no number of the run can change this comparison"));
            }
            comparisons.push(Comparison { difference, strict });
            left = right;
            compared = true;
        }
        if compared {
            return Ok(());
        }
        self.at += 1;
        Err(self.fault("one of < <= > >= is missing"))
    }

    fn sum(&mut self) -> Result<Linear, PredicateError> {
        let mut sum = self.product()?;
        while let Some(&Word::Sign(sign @ ('+' | '-'))) = self.peek() {
            self.at += 1;
            sum = sum.plus(&self.product()?, if sign == '+' { 1.0 } else { -1.0 });
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<Linear, PredicateError> {
        let mut product = self.atom()?;
        while let Some(&Word::Sign(sign @ ('*' | '/'))) = self.peek() {
            self.at += 1;
            let right = self.atom()?;
            product = if sign == '*' && product.factors.is_empty() {
                right.times(product.constant)
            } else if !right.factors.is_empty() {
                return Err(self.fault("only a number can be a factor or a divisor"));
            } else if sign == '*' {
                product.times(right.constant)
            } else if 0.0 < right.constant.abs() {
                product.times(1.0 / right.constant)
            } else {
                return Err(self.fault("division by zero"));
            };
        }
        Ok(product)
    }

    fn atom(&mut self) -> Result<Linear, PredicateError> {
        match self.next() {
            Some(Word::Number(constant)) => Ok(Linear { constant, factors: BTreeMap::new() }),
            Some(Word::Name(name)) if name != "and" => {
                Ok(Linear { constant: 0.0, factors: BTreeMap::from([(name, 1.0)]) })
            }
            Some(Word::Sign('-')) => Ok(self.atom()?.times(-1.0)),
            Some(Word::Sign('(')) => {
                let inside = self.sum()?;
                match self.next() {
                    Some(Word::Sign(')')) => Ok(inside),
                    _ => Err(self.fault("')' is missing")),
                }
            }
            Some(word) => Err(self.fault(format!("'{word}' where a number or a name should be"))),
            None => Err(self.fault("a number or a name is missing at the end")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(name: &str) -> Option<f64> {
        match name {
            "ours" => Some(1.04),
            "paper" => Some(1.0),
            "alone" => Some(10.0),
            "with_policy" => Some(9.5),
            "nan" => Some(f64::NAN),
            _ => None,
        }
    }

    fn check(text: &str, expected: Result<bool, &str>) {
        let found = match Predicate::parse(text) {
            Ok(predicate) => predicate.holds(&value).map_err(|name| format!("no {name}")),
            Err(error) => Err(format!("{}: {error}", error.at)),
        };
        assert_eq!(found, expected.map_err(str::to_owned), "{text}");
    }

    #[test]
    fn predicates_hold_or_do_not() {
        check("ours <= 1.05", Ok(true));
        check("ours <= 1.03", Ok(false));
        check("ours < 1.04", Ok(false));
        check("ours >= 1.04", Ok(true));
        check("with_policy >= 0.9 * alone", Ok(true));
        check("with_policy > alone * 0.95", Ok(false));
        check("with_policy/alone.x <= 1", Err("12: only a number can be a factor or a divisor"));
        check("1 <= ours <= 1.1 and alone > with_policy", Ok(true));
        check("1 <= ours <= 1.02 and alone > with_policy", Ok(false));
        check("-(alone - 2 * with_policy) / 3 <= 3", Ok(true));
        check("ours - paper <= 0.05 * (paper + 1_0 * ours)", Ok(true));
    }

    #[test]
    fn a_missing_number_is_named() {
        check("ours <= other", Err("no other"));
        check("ours <= nan", Err("no nan"));
    }

    #[test]
    fn what_cannot_be_false_is_refused() {
        let what = "no number of the run can change this comparison";
        check("1 <= 2", Err(&format!("5: {what}")));
        check("ours <= ours", Err(&format!("8: {what}")));
        check("0 * ours <= 1", Err(&format!("12: {what}")));
        check("2 * paper <= 3", Err(&format!("13: {what}")));
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-c0-9 .<>=+*/()-]{0,40}|\\PC{0,20}") {
            if let Err(error) = Predicate::parse(&text) {
                proptest::prop_assert!(error.at <= text.chars().count());
            }
        }
    }

    #[test]
    fn depth_is_bounded_by_length() {
        let deep = "(".repeat(PREDICATE_CHARS_MAX);
        assert!(Predicate::parse(&deep).is_err());
        assert!(Predicate::parse(&"-".repeat(100_000)).is_err());
    }

    #[test]
    fn malformed_predicates_say_where() {
        check("", Err("0: a number or a name is missing at the end"));
        check("ours", Err("4: one of < <= > >= is missing"));
        check("ours <=", Err("7: a number or a name is missing at the end"));
        check("ours == 1", Err("5: '=' has no meaning here"));
        check("ours <= 1 2", Err("10: '2' where the predicate should end"));
        check("ours <= (1 + paper", Err("18: ')' is missing"));
        check("ours <= 1.2.3", Err("8: '1.2.3' is no number"));
        check("ours <= 1 and", Err("13: a number or a name is missing at the end"));
        check("ours * paper <= 1", Err("7: only a number can be a factor or a divisor"));
        check("ours / 0 <= 1", Err("7: division by zero"));
        check("é <= 1", Err("0: 'é' has no meaning here"));
    }
}
