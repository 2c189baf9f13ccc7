//! Which start of the machine this is: what only outlives the process is worth something to the same start alone.
//!
//! Assumptions: 1. `/proc/sys/kernel/random/boot_id` is another one after each start of the machine (random(4))

/// A number of this start of the machine, never 0; none if the system does not say.
pub(crate) fn boot() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    of_text(&text)
}

fn of_text(text: &str) -> Option<u64> {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let (first, second) = digits.split_at_checked(16).filter(|(_, second)| second.len() == 16)?;
    let half = |digits| u64::from_str_radix(digits, 16).ok();
    Some(units::mix64(half(first)? ^ units::mix64(half(second)?)).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_start_is_another_number() {
        let id = |last: char| format!("0f8fad5b-d9cb-469f-a165-70867728950{last}\n");
        assert_ne!(of_text(&id('a')), of_text(&id('b')));
        assert_eq!(of_text(&id('a')), of_text(&id('a')));
        for text in ["", "no such file", "0f8fad5b-d9cb-469f"] {
            assert_eq!(of_text(text), None);
        }
    }
}
