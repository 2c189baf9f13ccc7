//! What must hold of a text that may be an expression, for fuzzers and tests.

use super::{Expression, VARIABLES, Variable};

/// Values of t, f, size, age and `ttl_left`.
pub(super) const VALUES: [f64; 5] = [3.0, 7.0, 100.0, 20.0, f64::INFINITY];

pub(super) fn value_of(variable: Variable) -> f64 {
    VARIABLES
        .iter()
        .zip(VALUES)
        .find(|((_, known), _)| *known == variable)
        .map_or(f64::NAN, |(_, value)| value)
}

/// An expression is read again as the same and has a value; of another the wrong place is in the text.
pub(crate) fn fuzzed(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    match text.parse::<Expression>() {
        Ok(expression) => {
            let again = expression.to_string().parse::<Expression>();
            assert!(again.is_ok_and(|again| again == expression && again.steps == expression.steps));
            expression.value_with(value_of);
        }
        Err(error) => {
            assert!(error.column <= error.text.chars().count(), "{error:?}");
            assert!(error.column + error.width <= error.text.chars().count(), "{error:?}");
            let breaks = |text: &str| text.matches(char::is_control).count();
            assert!(!error.what.is_empty() && breaks(&error.what) <= breaks(text), "{error:?}");
        }
    }
}
