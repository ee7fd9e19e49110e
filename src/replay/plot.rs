//! A plot of a replay as SVG: slots in use and requested slots over time, one panel for each
//! replay, one above the other. Owns the drawing; a few lines of SVG need no library, and the same
//! replay gives the same bytes. Never measures.

use super::meter::Sample;
use std::fmt::Write;

/// Columns of the drawing: a replay of any length is reduced to this many steps.
const COLUMNS: usize = 900;
const WIDTH: usize = 1040;
const PANEL: usize = 300;
const LEFT: usize = 80;
const TOP: usize = 40;
const HEIGHT: usize = 200;

/// One replay.
pub struct Panel<'a> {
    pub title: &'a str,
    pub samples: &'a [Sample],
    /// Slots of all hosts.
    pub slots: u64,
}

/// The mean of a value in each column, weighted by time.
fn columns(samples: &[Sample], value: impl Fn(&Sample) -> u64) -> Vec<f64> {
    let mut out = vec![0.0; COLUMNS];
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return out;
    };
    let span = (last.t_ms - first.t_ms).max(1) as f64;
    let at = |t: i64| (t - first.t_ms) as f64 / span * COLUMNS as f64;
    for pair in samples.windows(2) {
        let (from, to) = (at(pair[0].t_ms), at(pair[1].t_ms));
        let v = value(&pair[0]) as f64;
        let mut x = from;
        while x < to {
            let column = (x as usize).min(COLUMNS - 1);
            let next = ((column + 1) as f64).min(to);
            if next <= x {
                break;
            }
            out[column] += v * (next - x);
            x = next;
        }
    }
    out
}

/// A round number at or above `v`, for the top of an axis.
fn round_up(v: f64) -> f64 {
    let mut step = 1.0;
    while step * 10.0 < v {
        step *= 10.0;
    }
    let fits = [1.0, 2.0, 2.5, 5.0, 10.0]
        .iter()
        .map(|f| f * step)
        .find(|top| *top >= v);
    fits.unwrap_or(v)
}

fn length(ms: i64) -> String {
    let s = ms / 1000;
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} d", s / 86_400),
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The drawing.
pub fn svg(panels: &[Panel<'_>]) -> String {
    let mut out = String::new();
    let height = PANEL * panels.len().max(1);
    let mut line = |text: std::fmt::Arguments<'_>| {
        writeln!(out, "{text}").expect("writing to a String cannot fail");
    };
    line(format_args!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">"
    ));
    line(format_args!(
        "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
    ));
    for (n, panel) in panels.iter().enumerate() {
        draw(&mut line, panel, n * PANEL);
    }
    line(format_args!("</svg>"));
    out
}

fn draw(line: &mut impl FnMut(std::fmt::Arguments<'_>), panel: &Panel<'_>, y0: usize) {
    let used = columns(panel.samples, |s| s.slots);
    let waiting = columns(panel.samples, |s| s.waiting_slots);
    let most = waiting.iter().copied().fold(0.0, f64::max);
    let (top, bottom, right) = (y0 + TOP, y0 + TOP + HEIGHT, LEFT + COLUMNS);
    let (slots, scale) = (panel.slots.max(1) as f64, round_up(most.max(1.0)));
    line(format_args!(
        "<text x=\"{LEFT}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        y0 + 18,
        escape(panel.title)
    ));
    line(format_args!(
        "<text x=\"{LEFT}\" y=\"{}\" fill=\"#2b6cb0\">slots in use, of {}</text>\
         <text x=\"{}\" y=\"{}\" fill=\"#c05621\" text-anchor=\"end\">slots waited for</text>",
        y0 + 34,
        panel.slots,
        right,
        y0 + 34
    ));
    let mut area = format!("M{LEFT} {bottom}");
    path(&mut area, &used, slots, bottom);
    write!(area, " V{bottom} Z").expect("writing to a String cannot fail");
    line(format_args!(
        "<path d=\"{area}\" fill=\"#bee3f8\" stroke=\"#2b6cb0\"/>"
    ));
    let mut curve = format!("M{LEFT} {bottom}");
    path(&mut curve, &waiting, scale, bottom);
    line(format_args!(
        "<path d=\"{curve}\" fill=\"none\" stroke=\"#c05621\" stroke-width=\"1.5\"/>"
    ));
    line(format_args!(
        "<path d=\"M{LEFT} {top} V{bottom} H{right} V{top}\" fill=\"none\" stroke=\"black\"/>"
    ));
    let (x_left, x_right) = (LEFT - 6, right + 6);
    for (part, y) in [(1.0, top), (0.5, top + HEIGHT / 2), (0.0, bottom)] {
        line(format_args!(
            "<text x=\"{x_left}\" y=\"{y}\" dy=\"4\" text-anchor=\"end\">{:.0} %</text>\
             <text x=\"{x_right}\" y=\"{y}\" dy=\"4\">{}</text>",
            part * 100.0,
            part * scale
        ));
    }
    let (first, last) = (panel.samples.first(), panel.samples.last());
    let span = last.map_or(0, |s| s.t_ms) - first.map_or(0, |s| s.t_ms);
    for quarter in 0..=4 {
        line(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            LEFT + COLUMNS * quarter / 4,
            bottom + 18,
            length(span * quarter as i64 / 4)
        ));
    }
}

/// Steps through the columns, `full` at the top.
fn path(out: &mut String, values: &[f64], full: f64, bottom: usize) {
    let mut last = f64::NAN;
    for (n, v) in values.iter().enumerate() {
        let y = bottom as f64 - (v / full).min(1.0) * HEIGHT as f64;
        let y = (y * 10.0).round() / 10.0;
        if y == last {
            continue;
        }
        write!(out, " H{} V{y}", LEFT + n).expect("writing to a String cannot fail");
        last = y;
    }
    write!(out, " H{}", LEFT + values.len()).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(t_ms: i64, slots: u64, waiting_slots: u64) -> Sample {
        Sample {
            t_ms,
            slots,
            waiting_jobs: 0,
            waiting_slots,
        }
    }

    #[test]
    fn columns_hold_means_over_time() {
        let samples = [step(0, 10, 0), step(450, 0, 0), step(900, 0, 0)];
        let c = columns(&samples, |s| s.slots);
        assert!((c[0] - 10.0).abs() < 1e-9 && (c[449] - 10.0).abs() < 1e-9);
        assert!(c[450].abs() < 1e-9);
        // Many steps in one column: their mean.
        let fine: Vec<Sample> = (0..=9000).map(|t| step(t, (t % 2) as u64, 0)).collect();
        let c = columns(&fine, |s| s.slots);
        assert!(c.iter().all(|v| (v - 0.5).abs() < 1e-6));
    }

    #[test]
    fn the_picture_is_whole_and_names_what_it_shows() {
        let samples = [step(0, 4, 0), step(1000, 8, 30), step(7_200_000, 0, 0)];
        let panel = Panel {
            title: "easy & <fast>",
            samples: &samples,
            slots: 8,
        };
        let text = svg(&[panel]);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("easy &amp; &lt;fast&gt;"));
        assert!(text.contains("of 8") && text.contains(">2 h<"));
        assert!(!text.contains("NaN"));
    }

    #[test]
    fn an_empty_replay_draws_an_empty_panel() {
        let text = svg(&[Panel {
            title: "none",
            samples: &[],
            slots: 0,
        }]);
        assert!(text.contains("none") && !text.contains("NaN"));
    }

    #[test]
    fn axes_end_at_round_numbers() {
        for (v, top) in [(1.0, 1.0), (7.0, 10.0), (130.0, 200.0), (2400.0, 2500.0)] {
            assert!((round_up(v) - top).abs() < 1e-9, "{v}");
        }
    }
}
