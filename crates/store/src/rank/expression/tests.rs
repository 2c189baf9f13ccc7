//! What expressions mean, how wrong ones are refused, and that none does harm.

use super::fuzzed::{VALUES, value_of};
use super::*;
use crate::limits::{RANK_LENGTH_MAX, RANK_NESTING_MAX, RANK_STEPS_MAX};
use proptest::prelude::*;

fn calculated(text: &str) -> f64 {
    text.parse::<Expression>().unwrap_or_else(|e| panic!("{text}: {e}")).value_with(value_of)
}

fn refused(text: &str) -> RankError {
    text.parse::<Expression>().expect_err(text)
}

#[test]
fn expressions_are_calculated_as_they_are_written() {
    for (text, wanted) in [
        ("f / (size * t)", 7.0 / 300.0),
        ("f/size/t", 7.0 / 100.0 / 3.0),
        ("1 - 2 - 3", -4.0),
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1", 0.5),
        ("- - 3", 3.0),
        ("pow(2, 10)", 1024.0),
        ("1 < 2", 1.0),
        ("1 >= 2", 0.0),
        ("2 <= 2", 1.0),
        ("2 > 2", 0.0),
        ("f == 7", 1.0),
        ("f != 7", 0.0),
        ("if(t < age, f, size)", 7.0),
        ("if(t > age, f, size)", 100.0),
        ("if(0/0, 1, 2)", 2.0),
        ("min(3, 1, 2) + max(4, 6, 5)", 7.0),
        ("log(exp(2))", 2.0),
        ("log2(8) + sqrt(16)", 7.0),
        ("min(ttl_left, age)", 20.0),
        ("1.5e2", 150.0),
        (".5", 0.5),
        ("1e-3", 1e-3),
        ("\tf\u{a0}* 2 ", 14.0),
    ] {
        assert!((calculated(text) - wanted).abs() < 1e-12, "{text}: {}", calculated(text));
    }
    assert!(calculated("1 / 0").is_infinite() && calculated("0 / 0").is_nan());
    assert!(calculated("log(-1)").is_nan() && calculated("ttl_left - ttl_left").is_nan());
}

/// What the text is refused for: where, what, and the cure or the word that means nothing.
#[test]
fn what_cannot_be_meant_is_shown_with_its_place_and_cure() {
    for (text, carets, what, cure) in [
        ("", "^", "the rank is empty", "f / (size * t)"),
        ("f /", "   ^", "ends where a number, a variable", "f / (size * t)"),
        ("f / * t", "    ^", "expected before '*'", "f / (size * t)"),
        ("f size", "  ^^^^", "an operator or the end is expected before 'size'", "is an operator missing?"),
        ("2 (f)", "  ^", "expected before '('", "is an operator missing?"),
        ("(f", "^", "a '(' is not closed", "add ')'"),
        ("max(f, t", "   ^", "a '(' is not closed", "add ')'"),
        ("f)", " ^", "expected before ')'", "remove it"),
        ("f, t", " ^", "expected before ','", "max(a, b)"),
        ("max(f; t)", "     ^", "expected before ';'", "comparisons and functions"),
        ("frequency / size", "^^^^^^^^^", "unknown variable 'frequency'", "did you mean 'f'?"),
        ("1 / ttl", "    ^^^", "unknown variable 'ttl'", "did you mean 'ttl_left'?"),
        ("f / szie", "    ^^^^", "unknown variable 'szie'", ""),
        ("f + größe(t)", "    ^^^^^", "unknown function 'größe'", ""),
        ("ln(f)", "^^", "unknown function 'ln'", "did you mean 'log'?"),
        ("f * log", "    ^^^", "the function 'log' has no values", "log("),
        ("log(f, 2)", "^^^", "'log' takes one value, here are 2", "log(a)"),
        ("1 + min(f)", "    ^^^", "'min' takes two values or more, here are 1", "min(a, b)"),
        ("pow()", "^^^", "'pow' takes two values, here are 0", "pow(a, b)"),
        ("if(f > 1, 2)", "^^", "'if' takes three values", "if(a < b, c, d)"),
        ("1 < t < 9", "      ^", "a comparison follows a comparison", "if(a < b, if(b < c"),
        ("f = 1", "  ^", "expected before '='", "a == b"),
        ("f ** 2", "  ^^", "expected before '**'", "a ^ b"),
        ("f && t", "  ^", "expected before '&'", "if(a < b, c, d)"),
        ("size > 4KiB", "       ^^^^", "'4KiB' is no number", "in bytes"),
        ("1.2.3", "^^^^^", "'1.2.3' is no number", "1024"),
        ("1e999", "^^^^^", "'1e999' is no number", "1e6"),
        ("nan", "^^^", "unknown variable 'nan'", ""),
        ("f /\n\"t", "    ^", "expected before '\"'", "f / (size * t)"),
    ] {
        let error = refused(text);
        assert!(error.what.contains(what), "{text}: {error:?}");
        assert_eq!(error.excerpt()[1], carets, "{text}: {error:?}");
        assert!(error.cure.contains(cure), "{text}: {error:?}");
        assert_eq!(error.cure.is_empty(), error.unknown.is_some(), "{text}: {error:?}");
        assert_eq!(error.excerpt()[0].lines().count(), usize::from(!text.is_empty()), "{text}");
    }
}

#[test]
fn limits_are_kept_and_reached() {
    let nested = |n: usize| format!("{}f{}", "(".repeat(n), ")".repeat(n));
    assert!(nested(RANK_NESTING_MAX).parse::<Expression>().is_ok());
    assert!(refused(&nested(RANK_NESTING_MAX + 1)).what.contains("nested deeper than 32"));
    assert!(refused(&"-".repeat(200)).what.contains("nested deeper"));
    assert!(refused(&format!("f{}", "^f".repeat(100))).what.contains("16 values wait"));
    // So many waiting values, each of them a step and an operator a step.
    let waiting = |n: usize| format!("{}f{}", "f+(".repeat(n), ")".repeat(n));
    assert!(waiting(STACK_MAX - 1).parse::<Expression>().is_ok());
    assert!(refused(&waiting(STACK_MAX)).what.contains("more than 16 values wait"));
    let steps = |n: usize| format!("f{}", "+f".repeat(n / 2));
    assert!(steps(RANK_STEPS_MAX - 1).parse::<Expression>().is_ok());
    assert!(refused(&steps(RANK_STEPS_MAX + 1)).what.contains("more than 100 steps"));
    let long = "f".repeat(RANK_LENGTH_MAX + 1);
    assert!(refused(&long).what.contains("longer than 256 characters"));
    assert_eq!(refused(&long).excerpt()[0].len(), RANK_LENGTH_MAX);
}

/// An expression as a tree, calculated by recursion: what the compiled one is held to.
#[derive(Clone, Debug)]
enum Tree {
    Number(f64),
    Variable(usize),
    Sign(Box<Tree>),
    Infix(&'static str, Box<Tree>, Box<Tree>),
    Call(&'static str, Vec<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => format!("{number:?}"),
            Self::Variable(i) => VARIABLES[*i].0.to_owned(),
            Self::Sign(inner) => format!("-({})", inner.text()),
            Self::Infix(sign, a, b) => format!("({}) {sign} ({})", a.text(), b.text()),
            Self::Call(name, values) => {
                format!("{name}({})", values.iter().map(Self::text).collect::<Vec<_>>().join(", "))
            }
        }
    }

    #[expect(clippy::float_cmp, reason = "comparisons are part of the language")]
    fn value(&self) -> f64 {
        let truth = |is: bool| if is { 1.0 } else { 0.0 };
        match self {
            Self::Number(number) => *number,
            Self::Variable(i) => VALUES[*i],
            Self::Sign(inner) => -inner.value(),
            Self::Infix(sign, a, b) => {
                let (a, b) = (a.value(), b.value());
                match *sign {
                    "+" => a + b,
                    "-" => a - b,
                    "*" => a * b,
                    "/" => a / b,
                    "^" => a.powf(b),
                    "<" => truth(a < b),
                    "<=" => truth(a <= b),
                    ">" => truth(a > b),
                    ">=" => truth(a >= b),
                    "==" => truth(a == b),
                    _ => truth(a != b),
                }
            }
            Self::Call("if", values) => {
                let [condition, yes, no] = [0, 1, 2].map(|i| values[i].value());
                if condition == 0.0 || condition.is_nan() { no } else { yes }
            }
            Self::Call("min", values) => values.iter().map(Self::value).reduce(f64::min).unwrap(),
            Self::Call("max", values) => values.iter().map(Self::value).reduce(f64::max).unwrap(),
            Self::Call("pow", values) => values[0].value().powf(values[1].value()),
            Self::Call(name, values) => {
                let a = values[0].value();
                match *name {
                    "log" => a.ln(),
                    "log2" => a.log2(),
                    "sqrt" => a.sqrt(),
                    _ => a.exp(),
                }
            }
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        (0_u32..2_000).prop_map(|n| Tree::Number(f64::from(n) / 8.0)),
        (0_usize..VARIABLES.len()).prop_map(Tree::Variable),
    ];
    leaf.prop_recursive(4, 12, 3, |inner| {
        let signs = ["+", "-", "*", "/", "^", "<", "<=", ">", ">=", "==", "!="];
        prop_oneof![
            inner.clone().prop_map(|a| Tree::Sign(Box::new(a))),
            (prop::sample::select(signs.to_vec()), inner.clone(), inner.clone())
                .prop_map(|(sign, a, b)| Tree::Infix(sign, Box::new(a), Box::new(b))),
            (prop::sample::select(vec!["log", "log2", "sqrt", "exp"]), inner.clone())
                .prop_map(|(name, a)| Tree::Call(name, vec![a])),
            (prop::sample::select(vec!["min", "max"]), prop::collection::vec(inner.clone(), 2..4))
                .prop_map(|(name, values)| Tree::Call(name, values)),
            (inner.clone(), inner.clone()).prop_map(|(a, b)| Tree::Call("pow", vec![a, b])),
            (inner.clone(), inner.clone(), inner).prop_map(|(a, b, c)| Tree::Call("if", vec![a, b, c])),
        ]
    })
}

/// Whether both are the same number, or both none.
fn same(a: f64, b: f64) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 4 } else { 2_048 },
        failure_persistence: if cfg!(miri) { None } else { ProptestConfig::default().failure_persistence },
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_compiled_expression_equals_its_tree(tree in trees()) {
        let text = tree.text();
        prop_assume!(text.chars().count() <= RANK_LENGTH_MAX);
        let compiled: Expression = text.parse().map_err(|e| TestCaseError::fail(format!("{text}: {e:?}")))?;
        let (got, wanted) = (compiled.value_with(value_of), tree.value());
        prop_assert!(same(got, wanted), "{}: {} is not {}", text, got, wanted);
        let again: Expression = compiled.to_string().parse().unwrap();
        prop_assert_eq!(&again.steps, &compiled.steps);
        prop_assert_eq!(again, compiled);
    }

    #[test]
    fn no_text_panics(text in ".{0,300}") {
        fuzzed(text.as_bytes());
    }

    #[test]
    fn no_row_of_words_panics(words in prop::collection::vec(prop::sample::select(vec![
        "t", "f", "size", "age", "ttl_left", "min", "max", "if", "log", "pow", "1", "2.5", "1e3", "(", ")", "(", ",",
        "+", "-", "*", "/", "^", "<", "<=", "==", "=", "!", " ", "x", "é", "\n",
    ]), 0..60)) {
        fuzzed(words.concat().as_bytes());
    }
}
