//! A tier's profile as one page: its curve as NyxCache Fig. 3 draws it, what an access costs, and the numbers.
//!
//! Shape: a profile that was kept -> HTML that holds its styles, its scripts and its data

use super::page::{closed, drawn, escaped, opened};
use super::plot::curves;
use lab::experiment::{Plot, Series};
use media::ProfileRow;
use media::probe::{Competition, ProfileFile};

/// The page of a profile.
#[must_use]
pub fn profile_page(file: &ProfileFile) -> String {
    let how = format!("{} on {}: random accesses of one kind and size alone", file.spec, file.machine);
    let mut html = opened("MaxIOPS of a tier", &how);
    html.push_str("<div class=\"plots\">\n");
    let plots = [
        plot(file, "MaxIOPS", "millions per second", |_, iops| iops / 1e6),
        plot(file, "bandwidth at MaxIOPS", "GB/s", |size, iops| size * iops / 1e9),
        plot(file, "cost of an access", "ns of the tier", |_, iops| 1e9 / iops),
    ];
    for (i, plot) in plots.iter().enumerate() {
        html.push_str(&drawn(i + 1, &curves(plot)));
    }
    html.push_str(
        "</div>\n<table>\n<tr><th>bytes</th><th>reads per second</th><th>writes per second</th></tr>\n",
    );
    for ProfileRow { size, read_iops, write_iops } in &file.rows {
        html.push_str(&format!(
            "<tr><td class=\"n\">{}</td><td class=\"n\">{read_iops:.0}</td><td class=\"n\">{write_iops:.0}</td></tr>\n",
            size.0
        ));
    }
    html.push_str("</table>\n");
    file.competition.iter().for_each(|found| together(found, &mut html));
    html.push_str(&format!("<p class=\"note\">{}</p>\n", escaped(&file.identity)));
    closed(html)
}

/// A table of what reads and writes got of what was wanted of both at once.
fn together(found: &Competition, html: &mut String) {
    let gbps = |rate: f64| format!("{:.3}", rate / 1e9);
    html.push_str(&format!(
        "<table>\n<tr><th>GB/s of reads of {} and of writes, wanted together</th><th>reads got</th><th>writes got</th></tr>\n",
        found.size
    ));
    let wanted = found.reads.iter().flat_map(|read| found.writes.iter().map(move |write| (*read, *write)));
    for ((read, write), [reads, writes]) in wanted.zip(&found.got) {
        html.push_str(&format!(
            "<tr><td class=\"n\">{}, {}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
            gbps(read),
            gbps(write),
            gbps(*reads),
            gbps(*writes)
        ));
    }
    html.push_str("</table>\n");
}

/// One curve for reads and one for writes, of size and rate.
fn plot(file: &ProfileFile, title: &str, unit: &str, of: fn(f64, f64) -> f64) -> Plot {
    let series = |name: &str, iops: fn(&ProfileRow) -> f64| {
        let point = |row: &ProfileRow| (row.size.0 as f64, of(row.size.0 as f64, iops(row)));
        Series { name: name.to_owned(), points: file.rows.iter().map(point).collect() }
    };
    Plot {
        title: title.to_owned(),
        x: "bytes of an access".to_owned(),
        y: unit.to_owned(),
        series: vec![series("reads", |row| row.read_iops), series("writes", |row| row.write_iops)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Bytes;

    #[test]
    fn the_page_has_every_row_and_escapes_what_is_not_ours() {
        let row = |size, iops| ProfileRow { size: Bytes(size), read_iops: iops, write_iops: iops / 4.0 };
        let file = ProfileFile {
            spec: "file:/<script>:1MiB".to_owned(),
            identity: "file:00".to_owned(),
            machine: "2 × one".to_owned(),
            taken_unix_secs: 0,
            rows: vec![row(64, 4e7), row(4096, 3e6)],
            competition: Some(Competition {
                size: Bytes(4096),
                reads: vec![0.0, 2e9],
                writes: vec![0.0, 1e9],
                got: vec![[0.0; 2], [0.0, 1e9], [2e9, 0.0], [1.5e9, 4e8]],
            }),
        };
        let html = profile_page(&file);
        assert!(
            html.contains("<td class=\"n\">4096</td><td class=\"n\">3000000</td><td class=\"n\">750000</td>")
        );
        assert!(html.contains("file:/&lt;script&gt;:1MiB") && !html.contains("/<script>:"));
        assert_eq!(html.matches("class=\"plot\"").count(), 3);
        assert!(html.contains("12.288"), "GB/s is rate times size");
        let pair = "2.000, 1.000</td><td class=\"n\">1.500</td><td class=\"n\">0.400";
        assert!(html.contains(pair), "what both got: {html}");
    }
}
