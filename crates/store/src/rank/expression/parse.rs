//! From an expression's text to its steps, by recursive descent.
//!
//! Shape:      comparison < sum < product < sign < power < value; a power binds to the right and before a sign
//! Invariants: bounded by `RANK_LENGTH_MAX`, `RANK_STEPS_MAX`, `RANK_NESTING_MAX` and `STACK_MAX`: no text makes it
//!             recurse deeper
//! Failure:    the first thing that cannot be meant, with its column, what was expected, and the likely cure

use super::{FUNCTIONS, Operator, RankError, STACK_MAX, Step, VARIABLES};
use crate::limits::{RANK_LENGTH_MAX, RANK_NESTING_MAX, RANK_STEPS_MAX};

/// Words of other caches' documents, and what they are called here.
const SYNONYMS: [(&str, &str); 16] = [
    ("freq", "f"),
    ("frequency", "f"),
    ("count", "f"),
    ("uses", "f"),
    ("hits", "f"),
    ("recency", "t"),
    ("idle", "t"),
    ("time", "t"),
    ("ttl", "ttl_left"),
    ("expiry", "ttl_left"),
    ("bytes", "size"),
    ("len", "size"),
    ("length", "size"),
    ("s", "size"),
    ("ln", "log"),
    ("log10", "log"),
];

/// Signs, the longer first.
const SIGNS: [&str; 15] = ["<=", ">=", "==", "!=", "**", "<", ">", "+", "-", "*", "/", "^", "(", ")", ","];

/// The steps of an expression.
pub(super) fn steps(text: &str) -> Result<Vec<Step>, RankError> {
    let mut parser = Parser { text: text.chars().collect(), at: 0, steps: Vec::new(), depth: 0, nesting: 0 };
    if RANK_LENGTH_MAX < parser.text.len() {
        parser.text.truncate(RANK_LENGTH_MAX);
        let what = format!("the rank is longer than {RANK_LENGTH_MAX} characters");
        return Err(parser.error(what, "say it shorter", (RANK_LENGTH_MAX, 0)));
    }
    parser.skip_space();
    parser.comparison()?;
    if parser.at < parser.text.len() {
        return Err(parser.unexpected("an operator or the end"));
    }
    Ok(parser.steps)
}

struct Parser {
    text: Vec<char>,
    /// Always at the beginning of something, or at the end.
    at: usize,
    steps: Vec<Step>,
    /// Values on the stack after the steps.
    depth: usize,
    nesting: usize,
}

type Parsed = Result<(), RankError>;

impl Parser {
    fn comparison(&mut self) -> Parsed {
        const SIGNS: [(&str, Operator); 6] = [
            ("<", Operator::Below),
            ("<=", Operator::AtMost),
            (">", Operator::Above),
            (">=", Operator::AtLeast),
            ("==", Operator::Equal),
            ("!=", Operator::Unequal),
        ];
        self.sum()?;
        let Some((operator, start)) = self.take_of(&SIGNS) else { return Ok(()) };
        self.sum()?;
        if let Some((_, again)) = self.take_of(&SIGNS) {
            let cure = "compare one thing with another: if(a < b, if(b < c, 1, 0), 0)";
            return Err(self.error("a comparison follows a comparison", cure, (again, 1)));
        }
        self.push(Step::Operator(operator), start)
    }

    fn sum(&mut self) -> Parsed {
        self.product()?;
        while let Some((operator, start)) = self.take_of(&[("+", Operator::Add), ("-", Operator::Subtract)]) {
            self.product()?;
            self.push(Step::Operator(operator), start)?;
        }
        Ok(())
    }

    fn product(&mut self) -> Parsed {
        self.signed()?;
        while let Some((operator, start)) =
            self.take_of(&[("*", Operator::Multiply), ("/", Operator::Divide)])
        {
            self.signed()?;
            self.push(Step::Operator(operator), start)?;
        }
        Ok(())
    }

    /// −a^b is −(a^b).
    fn signed(&mut self) -> Parsed {
        let start = self.at;
        if self.take("-") {
            self.nested(start, Self::signed)?;
            self.push(Step::Operator(Operator::Negate), start)
        } else {
            self.power()
        }
    }

    /// a^b^c is a^(b^c), and b may have a sign.
    fn power(&mut self) -> Parsed {
        self.value()?;
        let start = self.at;
        if self.take("^") {
            self.nested(start, Self::signed)?;
            self.push(Step::Operator(Operator::Power), start)?;
        }
        Ok(())
    }

    fn value(&mut self) -> Parsed {
        let start = self.at;
        let word = self.word();
        if self.take("(") {
            self.nested(start, Self::comparison)?;
            return self.close(start);
        }
        if word.is_empty() {
            return Err(self.unexpected("a number, a variable, a function or '('"));
        }
        self.at += word.chars().count();
        self.skip_space();
        if word.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
            return self.number(&word, start);
        }
        if self.peek() == "(" {
            return self.call(&word, start);
        }
        match VARIABLES.iter().find(|(name, _)| *name == word) {
            Some((_, variable)) => self.push(Step::Variable(*variable), start),
            None if FUNCTIONS.iter().any(|(name, _)| *name == word) => {
                let cure = format!("write {word}(…)");
                Err(self.error(format!("the function '{word}' has no values"), cure, (start, word.len())))
            }
            None => Err(self.unknown(&word, start, "variable")),
        }
    }

    fn number(&mut self, word: &str, start: usize) -> Parsed {
        // Rust's numbers but for signs, words and what is beyond them.
        match word.parse::<f64>() {
            Ok(number) if number.is_finite() => self.push(Step::Number(number), start),
            _ => {
                let width = word.chars().count();
                let cure = "write 1024, 0.5 or 1e6; sizes are in bytes and times in seconds, without a unit";
                Err(self.error(format!("'{word}' is no number"), cure, (start, width)))
            }
        }
    }

    fn call(&mut self, word: &str, start: usize) -> Parsed {
        let Some((_, operator)) = FUNCTIONS.iter().find(|(name, _)| *name == word) else {
            return Err(self.unknown(word, start, "function"));
        };
        let (takes, more) = (operator.takes(), matches!(operator, Operator::Min | Operator::Max));
        let open = self.at;
        self.take("(");
        let mut values = 0;
        if self.peek() != ")" {
            loop {
                self.nested(start, Self::comparison)?;
                values += 1;
                // The first of many is folded with the next, so that the stack stays low.
                if more && 2 <= values {
                    self.push(Step::Operator(*operator), start)?;
                }
                if !self.take(",") {
                    break;
                }
            }
        }
        self.close(open)?;
        if values < takes || takes < values && !more {
            let names = match takes {
                1 => "one value",
                2 if more => "two values or more",
                2 => "two values",
                _ => "three values: a comparison, the value if it holds, the value if not",
            };
            let width = word.chars().count();
            let example = format!("write {word}({})", ["a", "a, b", "a < b, c, d"][takes - 1]);
            return Err(self.error(
                format!("'{word}' takes {names}, here are {values}"),
                example,
                (start, width),
            ));
        }
        if more { Ok(()) } else { self.push(Step::Operator(*operator), start) }
    }

    fn nested(&mut self, start: usize, inner: fn(&mut Self) -> Parsed) -> Parsed {
        if self.nesting == RANK_NESTING_MAX {
            return Err(self.error(
                format!("nested deeper than {RANK_NESTING_MAX}"),
                "say it simpler",
                (start, 1),
            ));
        }
        self.nesting += 1;
        let inner = inner(self);
        self.nesting -= 1;
        inner
    }

    fn close(&mut self, open: usize) -> Parsed {
        if self.take(")") {
            return Ok(());
        }
        if self.at == self.text.len() {
            return Err(self.error("a '(' is not closed", "add ')'", (open, 1)));
        }
        Err(self.unexpected("an operator, ',' or ')'"))
    }

    fn push(&mut self, step: Step, start: usize) -> Parsed {
        self.depth = match step {
            Step::Operator(operator) => self.depth + 1 - operator.takes(),
            Step::Number(_) | Step::Variable(_) => self.depth + 1,
        };
        if STACK_MAX < self.depth {
            let what = format!("more than {STACK_MAX} values wait for their operators here");
            return Err(self.error(what, "begin with the longest part, or say it simpler", (start, 1)));
        }
        if self.steps.len() == RANK_STEPS_MAX {
            let what = format!("the rank has more than {RANK_STEPS_MAX} steps");
            return Err(self.error(what, "say it shorter", (start, 1)));
        }
        self.steps.push(step);
        Ok(())
    }

    /// The word or the number that begins here; empty if none does.
    fn word(&self) -> String {
        let mut word = String::new();
        let rest = &self.text[self.at..];
        let digits = rest.first().is_some_and(|c| c.is_ascii_digit() || *c == '.');
        for &c in rest {
            // The sign of an exponent belongs to the number.
            let exponent = digits && matches!(c, '+' | '-') && word.ends_with(['e', 'E']);
            if !(c.is_alphanumeric() || c == '_' || digits && c == '.' || exponent) {
                break;
            }
            word.push(c);
        }
        word
    }

    /// The sign that is here; empty if none is.
    fn peek(&self) -> &'static str {
        let is_here = |sign: &&str| sign.chars().eq(self.text[self.at..].iter().copied().take(sign.len()));
        SIGNS.into_iter().find(is_here).unwrap_or("")
    }

    /// Takes a sign if it is here.
    fn take(&mut self, sign: &str) -> bool {
        let is_here = self.peek() == sign;
        if is_here {
            self.at += sign.len();
            self.skip_space();
        }
        is_here
    }

    /// Takes one of some signs if it is here, and says where that was.
    fn take_of(&mut self, signs: &[(&str, Operator)]) -> Option<(Operator, usize)> {
        let start = self.at;
        let (sign, operator) = signs.iter().find(|(sign, _)| self.peek() == *sign)?;
        self.take(sign).then_some((*operator, start))
    }

    fn skip_space(&mut self) {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    fn error(&self, what: impl Into<String>, cure: impl Into<String>, place: (usize, usize)) -> RankError {
        let (column, width) = place;
        let text = self.text.iter().collect();
        RankError { what: what.into(), cure: cure.into(), text, column, width, unknown: None }
    }

    fn unknown(&self, word: &str, start: usize, kind: &str) -> RankError {
        let place = (start, word.chars().count());
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == word.to_lowercase());
        let what = format!("unknown {kind} '{word}'");
        match synonym {
            Some((_, name)) => self.error(what, format!("did you mean '{name}'?"), place),
            None => RankError { unknown: Some(word.to_owned()), ..self.error(what, "", place) },
        }
    }

    /// Something else is here than was expected.
    fn unexpected(&self, wanted: &str) -> RankError {
        let Some(found) = self.text.get(self.at) else {
            let what = if self.text.is_empty() {
                "the rank is empty".to_owned()
            } else {
                format!("the rank ends where {wanted} is expected")
            };
            return self.error(what, "for example f / (size * t)", (self.at, 0));
        };
        let (word, sign) = (self.word(), self.peek());
        let shown = match (word.is_empty(), sign) {
            (false, _) => word,
            (true, "") => found.to_string(),
            (true, sign) => sign.to_owned(),
        };
        let cure = match shown.as_str() {
            "**" => "a power is a ^ b",
            "=" => "equality is a == b",
            "&" | "|" | "!" | "?" | "and" | "or" | "not" => "a choice is if(a < b, c, d)",
            "," => "only values of a function have commas between them: max(a, b)",
            ")" => "remove it, or open it before",
            "%" | ";" | ":" | "[" | "]" | "{" | "}" => {
                "there are numbers, variables, + - * / ^, comparisons and functions"
            }
            _ if wanted.starts_with("an operator") => "is an operator missing? for example f * size",
            _ => "for example f / (size * t)",
        };
        let width = shown.chars().count();
        self.error(format!("{wanted} is expected before '{shown}'"), cure, (self.at, width))
    }
}
