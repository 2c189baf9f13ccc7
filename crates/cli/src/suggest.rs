//! Did you mean: the known word that is closest to a mistyped one.

/// Slips of one hand at most: more make another word (guess; 1 to 5 were tried on the words of the settings).
const SLIPS_MAX: usize = 2;

/// The closest of `known`, if it is close enough to be meant. A word that shares no letter with it is not.
pub(crate) fn closest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let far = SLIPS_MAX.min(1 + word.len() / 3);
    let is_close = |(slips, k): &(usize, &str)| *slips <= far && *slips < word.len().max(k.len());
    known.map(|k| (distance(word, k), k)).filter(is_close).min().map(|(_, k)| k)
}

/// A cure: the closest word, or where all of them are listed.
pub(crate) fn cure<'a>(word: &str, known: impl Iterator<Item = &'a str>, list: &str) -> String {
    closest(word, known).map_or_else(|| format!("{list} lists every one"), |k| format!("did you mean '{k}'?"))
}

/// How many letters to insert, delete, change or swap with their neighbour to get from `a` to `b`.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    rows[0] = (0..=b.len()).collect();
    for i in 1..=a.len() {
        rows[i][0] = i;
        for j in 1..=b.len() {
            let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = change.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if 1 < i && 1 < j && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word() {
        let known = ["memory", "port", "threads", "max_tenants"];
        for (word, wanted) in [
            ("memroy", Some("memory")),
            ("thread", Some("threads")),
            ("max_tenant", Some("max_tenants")),
            ("wibble", None),
            ("xy", None),
            ("max_threads", None),
        ] {
            assert_eq!(closest(word, known.into_iter()), wanted, "{word}");
        }
        assert_eq!(closest("7", ["0", "1", "2", "3"].into_iter()), None);
    }
}
