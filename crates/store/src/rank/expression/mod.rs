//! A rank that an operator writes: the value of an expression over what is known of an item; the lowest goes first.
//!
//! Shape:      text -> (`parse`) steps in postfix order -> per item a value -> bin (`scale`)
//! Invariants: a compiled expression cannot fail: its steps use a stack whose depth was checked; nothing is allocated per
//!             item. What is not a number goes first; a comparison is 1 or 0
//! Units:      t, age and ttl_left in seconds (`clock` says which), size in bytes charged, f in uses
//! Cost:       a match per step and a look at the marks of the clock where age is asked; not measured alone
//! Non-goals:  loops, functions of one's own, state: what cannot be said so is a rank of its own in this crate

mod fuzzed;
mod parse;
#[cfg(test)]
mod tests;

pub(crate) use fuzzed::fuzzed;

use super::Usage;
use super::clock::Clock;
use super::error::RankError;
use super::uses::USES;
use std::fmt;

/// Values that wait for their operator at most: the stack is on the thread's own.
const STACK_MAX: usize = 16;

/// What an expression may ask about an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Variable {
    /// Seconds since it was last used.
    T,
    /// Uses, the store included: 1 and up.
    F,
    /// Bytes that it is charged.
    Size,
    /// Seconds since it was stored.
    Age,
    /// Seconds until it expires; without end if it does not.
    TtlLeft,
}

/// Every variable by its name.
const VARIABLES: [(&str, Variable); 5] = [
    ("t", Variable::T),
    ("f", Variable::F),
    ("size", Variable::Size),
    ("age", Variable::Age),
    ("ttl_left", Variable::TtlLeft),
];

/// What takes values from the stack and leaves one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Operator {
    Negate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Power,
    Below,
    AtMost,
    Above,
    AtLeast,
    Equal,
    Unequal,
    Min,
    Max,
    Log,
    Log2,
    Sqrt,
    Exp,
    If,
}

/// Every function by its name. `min` and `max` take more than two values as well.
const FUNCTIONS: [(&str, Operator); 8] = [
    ("min", Operator::Min),
    ("max", Operator::Max),
    ("log", Operator::Log),
    ("log2", Operator::Log2),
    ("sqrt", Operator::Sqrt),
    ("exp", Operator::Exp),
    ("pow", Operator::Power),
    ("if", Operator::If),
];

impl Operator {
    /// Values that it takes.
    const fn takes(self) -> usize {
        match self {
            Self::Negate | Self::Log | Self::Log2 | Self::Sqrt | Self::Exp => 1,
            Self::If => 3,
            _ => 2,
        }
    }

    /// Its value of up to three, `takes` of them meant.
    #[inline]
    #[expect(clippy::float_cmp, reason = "operators ask whether two values are the same")]
    fn of(self, [a, b, c]: [f64; 3]) -> f64 {
        let truth = |is: bool| f64::from(u8::from(is));
        match self {
            Self::Negate => -a,
            Self::Add => a + b,
            Self::Subtract => a - b,
            Self::Multiply => a * b,
            Self::Divide => a / b,
            Self::Power => a.powf(b),
            Self::Below => truth(a < b),
            Self::AtMost => truth(a <= b),
            Self::Above => truth(b < a),
            Self::AtLeast => truth(b <= a),
            Self::Equal => truth(a == b),
            Self::Unequal => truth(a != b),
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::Log => a.ln(),
            Self::Log2 => a.log2(),
            Self::Sqrt => a.sqrt(),
            Self::Exp => a.exp(),
            Self::If => {
                if a != 0.0 && !a.is_nan() {
                    b
                } else {
                    c
                }
            }
        }
    }
}

/// A step of the calculation.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Step {
    Number(f64),
    Variable(Variable),
    Operator(Operator),
}

/// A compiled expression.
#[derive(Clone, Debug)]
pub struct Expression {
    text: String,
    steps: Box<[Step]>,
}

impl PartialEq for Expression {
    /// The steps follow from the text.
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::str::FromStr for Expression {
    type Err = RankError;

    fn from_str(text: &str) -> Result<Self, RankError> {
        let text = text.trim();
        let steps = parse::steps(text)?;
        Ok(Self { text: text.to_owned(), steps: steps.into_boxed_slice() })
    }
}

impl Expression {
    /// The names of all variables and functions.
    pub(super) fn words() -> impl Iterator<Item = &'static str> {
        VARIABLES.iter().map(|(name, _)| *name).chain(FUNCTIONS.iter().map(|(name, _)| *name))
    }

    /// The value for an item.
    #[inline]
    pub(super) fn value(&self, item: &Usage, clock: &Clock) -> f64 {
        self.value_with(|variable| match variable {
            Variable::T => clock.secs_unused(item),
            Variable::F => f64::from(USES[usize::from(item.uses)]),
            Variable::Size => f64::from(item.size),
            Variable::Age => clock.secs_stored(item),
            Variable::TtlLeft => clock.secs_left(item),
        })
    }

    #[inline]
    fn value_with(&self, of: impl Fn(Variable) -> f64) -> f64 {
        let mut stack = [0.0; STACK_MAX];
        let mut depth = 0;
        for step in &self.steps {
            let value = match *step {
                Step::Number(number) => number,
                Step::Variable(variable) => of(variable),
                Step::Operator(operator) => {
                    depth -= operator.takes();
                    // Beyond what is meant there may be nothing on the stack; zeros are as good.
                    let at = |i: usize| stack.get(depth + i).copied().unwrap_or(0.0);
                    operator.of([at(0), at(1), at(2)])
                }
            };
            stack[depth] = value;
            depth += 1;
        }
        stack[0]
    }
}
