//! Experiments as one page: plots, numbers with their verdicts, what differs from the paper.
//!
//! Shape:      outcomes and index -> HTML that holds its styles, its scripts and its data
//! Invariants: nothing is fetched, and the page's own policy forbids it; every text is escaped for the place where it
//!             stands; the same outcomes give the same page
//! Source:     plots are drawn by Vega-Lite, vendored in `assets/`

use super::plot;
use super::table::{by_basis, cells};
use lab::experiment::{Basis, Entry, Outcome, Verdict};
use std::fmt::Write as _;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
const VEGA: [&str; 3] = [
    include_str!("../../assets/vega.min.js"),
    include_str!("../../assets/vega-lite.min.js"),
    include_str!("../../assets/vega-embed.min.js"),
];

/// Inline only: the page cannot load anything. Vega compiles its expressions, which counts as evaluating text.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; img-src data:";

/// The page of `outcomes`; `how` says in words how they were run.
#[must_use]
pub fn page(outcomes: &[Outcome], index: &[Entry], how: &str) -> String {
    let mut html = opened("Papers against ours", how);
    html.push_str(&totals(outcomes));
    html.push_str("<nav>\n");
    for outcome in outcomes {
        let name = escaped(&outcome.name);
        html.push_str(&format!("<a href=\"#{name}\">{name}</a>\n"));
    }
    html.push_str("</nav>\n");
    let mut plots = 0;
    for outcome in outcomes {
        section(&mut html, outcome, &mut plots);
    }
    html.push_str(&all_entries(index));
    closed(html)
}

/// The beginning of a page that needs nothing from elsewhere: title and what it is about.
pub(super) fn opened(title: &str, how: &str) -> String {
    let mut html = String::with_capacity(1 << 20);
    html.push_str("<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.push_str(&format!("<meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n"));
    html.push_str(&format!("<title>Cotenant: {}</title>\n", escaped(title)));
    html.push_str(&format!("<style>\n{STYLE}</style>\n"));
    for script in VEGA {
        html.push_str(&format!("<script>\n{}</script>\n", without_source_map(script)));
    }
    html + &format!("</head>\n<body>\n<h1>{}</h1>\n<p>{}</p>\n", escaped(title), escaped(how))
}

/// The page with its end, which draws what is to be drawn.
pub(super) fn closed(html: String) -> String {
    html + &format!("<script>\n{SCRIPT}</script>\n</body>\n</html>\n")
}

/// The place of a plot on the page.
pub(super) fn drawn(number: usize, spec: &serde_json::Value) -> String {
    let id = format!("plot-{number}");
    format!(
        "<div class=\"plot\" data-spec=\"{id}\"></div>\n<script type=\"application/json\" id=\"{id}\">{}</script>\n",
        json_inside_html(spec)
    )
}

fn totals(outcomes: &[Outcome]) -> String {
    let mut html = String::from("<table>\n<tr><th>basis</th>");
    for verdict in Verdict::ALL {
        html.push_str(&format!("<th class=\"{verdict}\">{verdict}</th>"));
    }
    html.push_str("</tr>\n");
    for basis in Basis::ALL.into_iter().map(Some).chain([None]) {
        let counts = Verdict::ALL.map(|v| outcomes.iter().map(|o| o.count(basis, v)).sum::<usize>());
        if counts.iter().all(|count| *count == 0) {
            continue;
        }
        html.push_str(&format!("<tr><td>{}</td>", basis.map_or("(no item)", Basis::word)));
        for count in counts {
            html.push_str(&format!("<td class=\"n\">{count}</td>"));
        }
        html.push_str("</tr>\n");
    }
    html + "</table>\n<p class=\"note\">Held-out and predicted numbers are evidence; construction, fitted and input are \
        not. ok: within the tolerance. shape: the predicate, written before the run, holds. miss: neither.</p>\n"
}

fn section(html: &mut String, outcome: &Outcome, plots: &mut usize) {
    let name = escaped(&outcome.name);
    let title = escaped(&outcome.title);
    html.push_str(&format!("<h2 id=\"{name}\">{title} <code>{name}</code></h2>\n"));
    if let Some(error) = &outcome.error {
        html.push_str(&format!("<p class=\"error\">This experiment failed: {}</p>\n", escaped(error)));
    }
    html.push_str("<div class=\"plots\">\n");
    for spec in plot::specs(outcome) {
        *plots += 1;
        html.push_str(&drawn(*plots, &spec));
    }
    html.push_str("</div>\n");
    numbers(html, outcome);
    if !outcome.readme.is_empty() {
        html.push_str(&format!("<pre class=\"readme\">{}</pre>\n", escaped(outcome.readme.trim_end())));
    }
}

fn numbers(html: &mut String, outcome: &Outcome) {
    html.push_str("<table>\n<tr>");
    for head in ["item", "paper", "ours", "unit", "tolerance", "verdict", "reason and remarks"] {
        html.push_str(&format!("<th>{head}</th>"));
    }
    html.push_str("</tr>\n");
    let mut last = None;
    for row in by_basis(&outcome.rows) {
        if last != Some(row.basis) {
            last = Some(row.basis);
            let word = row.basis.map_or("(no item)", Basis::word);
            html.push_str(&format!("<tr class=\"basis\"><th colspan=\"7\">{word}</th></tr>\n"));
        }
        let [item, paper, ours, unit, tolerance, verdict, _] = cells(row).map(|cell| escaped(&cell));
        let remarks = row
            .line
            .note
            .split("; ")
            .filter(|part| !part.starts_with("basis ") && !part.starts_with("expect "));
        let remarks = escaped(&remarks.collect::<Vec<_>>().join("; "));
        html.push_str(&format!(
            "<tr><td>{item}</td><td class=\"n\">{paper}</td><td class=\"n\">{ours}</td><td>{unit}</td>\
                 <td>{tolerance}</td><td class=\"v {verdict}\">{verdict}</td>\
                 <td>{} <span class=\"note\">{remarks}</span></td></tr>\n",
            escaped(&row.reason)
        ));
    }
    html.push_str("</table>\n");
}

fn all_entries(index: &[Entry]) -> String {
    let mut html = String::from(
        "<h2 id=\"index\">Every table and figure</h2>\n<table>\n\
         <tr><th>name</th><th>status</th><th>plants</th><th>title</th><th>why</th></tr>\n",
    );
    for entry in index {
        let cells = [&entry.name, entry.status.word(), &entry.plants.join(", "), &entry.title, &entry.why];
        let [name, status, plants, title, why] = cells.map(escaped);
        html.push_str(&format!(
                "<tr class=\"s-{status}\"><td>{name}</td><td>{status}</td><td>{plants}</td><td>{title}</td><td>{why}</td></tr>\n"
            ),
        );
    }
    html + "</table>\n"
}

/// `text` for any place between tags or inside a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => html.push_str("&amp;"),
            '<' => html.push_str("&lt;"),
            '>' => html.push_str("&gt;"),
            '"' => html.push_str("&quot;"),
            '\'' => html.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => html.push('\u{FFFD}'),
            c => html.push(c),
        }
    }
    html
}

/// JSON whose text cannot end the script that holds it.
fn json_inside_html(value: &serde_json::Value) -> String {
    let text = value.to_string();
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                // Writing to a string cannot fail.
                let _ = write!(safe, "\\u{:04x}", u32::from(c));
            }
            c => safe.push(c),
        }
    }
    safe
}

/// A script without the line that names a file beside it.
fn without_source_map(script: &str) -> String {
    let kept = script.lines().filter(|line| !line.starts_with("//# sourceMappingURL="));
    kept.fold(String::with_capacity(script.len()), |text, line| text + line + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::experiment::{Experiment, ExperimentError, Options, Results, Size, Sweep, index, run};

    const HOSTILE: &str = "</script><script>alert('1' & \"2\")</script>\u{2028}<!--";

    fn hostile(_: &Sweep, results: &mut Results) -> Result<(), ExperimentError> {
        results.number("a", 2.0);
        results.number("b", 1.0);
        results.note("a", HOSTILE);
        results.number(HOSTILE, 1.0);
        results.series(HOSTILE, HOSTILE, &[(0.0, 1.0), (1.0, 2.0)]);
        results.axes(HOSTILE, HOSTILE, HOSTILE);
        Ok(())
    }

    fn hostile_page() -> String {
        let csv = "item,paper,unit,tolerance,basis,expect,reason\n\
            a,1,</td><b>,0.1,held-out,,<script>x</script>\nb,1,</td><b>,0.1,fitted,,<i>y</i>\n";
        let experiment = Experiment {
            name: "nyx/<fig>",
            run: hostile,
            sweep: "title = \"<b>&amp;</b>\"",
            paper: csv,
            readme: HOSTILE,
        };
        let outcomes = run(&[&experiment], &Options { size: Size::Full, seed: 1, threads: 1 }, &|_| ());
        page(&outcomes, &index().unwrap(), HOSTILE)
    }

    /// What is left of a page without the scripts that the page is meant to have.
    fn outside_scripts(page: &str) -> String {
        let mut rest = page;
        let mut kept = String::new();
        while let Some((before, inside)) = rest.split_once("<script") {
            kept.push_str(before);
            rest = inside.split_once("</script>").expect("each script ends").1;
        }
        kept + rest
    }

    #[test]
    fn hostile_text_stays_text() {
        let page = hostile_page();
        // Three libraries, two specifications per experiment at most, one script of our own.
        assert_eq!(page.matches("<script>").count(), 4);
        let specs = page.matches("<script type=\"application/json\"").count();
        assert_eq!(page.matches("</script>").count(), 4 + specs);
        let outside = outside_scripts(&page);
        for bad in ["alert('1'", "<b>", "<i>", "<fig>", "<!--", "\u{2028}<"] {
            assert!(!outside.contains(bad), "{bad} in the page");
        }
        assert!(outside.contains("&lt;/script&gt;&lt;script&gt;alert(&#39;1&#39; &amp; &quot;2&quot;)"));
    }

    #[test]
    fn specifications_are_json_that_says_the_same() {
        let page = hostile_page();
        let specs: Vec<serde_json::Value> = page
            .split("<script type=\"application/json\"")
            .skip(1)
            .map(|rest| rest.split_once('>').unwrap().1.split_once("</script>").unwrap().0)
            .map(|text| serde_json::from_str(text).expect("a specification is JSON"))
            .collect();
        assert!(specs.iter().any(|spec| spec["title"] == HOSTILE), "{specs:?}");
        assert_eq!(page.matches("data-spec=").count(), specs.len());
    }

    #[test]
    fn nothing_is_fetched() {
        let page = hostile_page();
        let outside = outside_scripts(&page);
        for loads in ["src=", "<link", "<img", "<iframe", "url(", "@import", "http:", "https:"] {
            assert!(!outside.replace("img-src", "").contains(loads), "{loads} in the page");
        }
        assert!(!page.contains("sourceMappingURL=v"));
        assert!(page.contains("default-src 'none'"));
    }

    #[test]
    fn verdicts_and_bases_are_shown() {
        let page = hostile_page();
        for text in
            ["<td class=\"v miss\">miss</td>", "<td class=\"v ok\">ok</td>", ">held-out</th>", ">fitted</th>"]
        {
            assert!(page.contains(text), "{text}");
        }
        assert_eq!(page, hostile_page());
    }
}
