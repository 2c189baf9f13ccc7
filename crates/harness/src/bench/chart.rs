//! Curves as one picture: panels of lines over named places.
//!
//! Shape:      panels -> SVG that needs nothing else
//! Invariants: every text is escaped; the same panels give the same picture

use std::fmt::Write as _;

/// One panel.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: String,
    pub(crate) y: String,
    /// The names of the places, from left to right.
    pub(crate) places: Vec<String>,
    /// A name and a height per place.
    pub(crate) lines: Vec<(String, Vec<f64>)>,
}

/// Pixels of a panel and of what surrounds its lines.
const SIZE: (f64, f64) = (380.0, 280.0);
const MARGIN: (f64, f64, f64, f64) = (58.0, 14.0, 60.0, 44.0);
/// Told apart by all kinds of colour vision (Okabe and Ito).
const COLOURS: [&str; 4] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"];
/// Lines that lie on each other are seen through each other's gaps.
const DASHES: [&str; 4] = ["none", "7 5", "2 3", "10 3 2 3"];
/// Lines across.
const STEPS: u32 = 4;

/// The picture, `columns` panels wide.
pub(crate) fn render(panels: &[Panel], columns: usize) -> String {
    let columns = columns.max(1);
    let (width, height) =
        (SIZE.0 * columns.min(panels.len()) as f64, SIZE.1 * panels.len().div_ceil(columns) as f64);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"#fff\"/>\n"
    );
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = ((i % columns) as f64 * SIZE.0, (i / columns) as f64 * SIZE.1);
        // A string takes every write, here and below.
        let _ = writeln!(svg, "<g transform=\"translate({x} {y})\">");
        draw(&mut svg, panel);
        svg.push_str("</g>\n");
    }
    svg + "</svg>\n"
}

fn draw(svg: &mut String, panel: &Panel) {
    let (left, right, top, bottom) = MARGIN;
    let (wide, high) = (SIZE.0 - left - right, SIZE.1 - top - bottom);
    let most = panel.lines.iter().flat_map(|(_, heights)| heights).copied().fold(0.0, f64::max);
    let most = round_up(most);
    let at_x = |place: usize| left + wide * (place as f64 + 0.5) / panel.places.len().max(1) as f64;
    let at_y = |height: f64| top + high * (1.0 - height / most);
    let _ =
        writeln!(svg, "<text x=\"{left}\" y=\"18\" font-weight=\"bold\">{}</text>", escaped(&panel.title));
    for step in 0..=STEPS {
        let height = most * f64::from(step) / f64::from(STEPS);
        let (y, end) = (at_y(height), SIZE.0 - right);
        let _ = writeln!(svg, "<path d=\"M{left} {y:.1}H{end}\" stroke=\"#ddd\"/>");
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 5.0,
            y + 4.0,
            short(height)
        );
    }
    for (place, name) in panel.places.iter().enumerate() {
        let (x, y) = (at_x(place), SIZE.1 - bottom + 15.0);
        let _ =
            writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"middle\">{}</text>", escaped(name));
    }
    let (x, y) = (left + wide / 2.0, SIZE.1 - 12.0);
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", escaped(&panel.x));
    let middle = top + high / 2.0;
    let _ = writeln!(
        svg,
        "<text transform=\"translate(13 {middle}) rotate(-90)\" text-anchor=\"middle\">{}</text>",
        escaped(&panel.y)
    );
    for (i, (name, heights)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<String> =
            heights.iter().enumerate().map(|(p, h)| format!("{:.1},{:.1}", at_x(p), at_y(*h))).collect();
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-dasharray=\"{}\"/>",
            points.join(" "),
            DASHES[i % DASHES.len()]
        );
        for point in &points {
            let (x, y) = point.split_once(',').unwrap_or_default();
            let _ = writeln!(svg, "<circle cx=\"{x}\" cy=\"{y}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let x = SIZE.0 - right - 4.0;
        let y = 18.0 + 13.0 * i as f64;
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\" fill=\"{colour}\">{}</text>",
            escaped(name)
        );
    }
}

/// The next of 1, 2, 2.5, 5 and their tenfolds.
fn round_up(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let ten = 10_f64.powf(most.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].into_iter().map(|step| step * ten).find(|top| most <= *top).unwrap_or(most)
}

fn short(value: f64) -> String {
    if 1000.0 <= value { format!("{}k", value / 1000.0) } else { format!("{}", (value * 1e4).round() / 1e4) }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_holds_every_line_and_escapes_texts() {
        let panel = Panel {
            title: "a < b".to_owned(),
            x: "x".to_owned(),
            y: "y".to_owned(),
            places: vec!["0".to_owned(), "10".to_owned()],
            lines: vec![("ours".to_owned(), vec![0.0, 3.0]), ("theirs".to_owned(), vec![1.0, 2.0])],
        };
        let svg = render(&[panel.clone(), panel], 2);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 8);
        assert!(svg.contains("a &lt; b") && svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn the_top_is_round_and_not_below() {
        for (most, top) in [(0.0, 1.0), (0.93, 1.0), (1.0, 1.0), (2.1, 2.5), (430.0, 500.0), (7.0, 10.0)] {
            assert!((round_up(most) - top).abs() < 1e-9, "{most}");
        }
    }
}
