//! Tests complete screens, drawn to a test backend after keys were pressed; and golden frames.

use super::key_actions::{SessionEffect, handle_key};
use super::reading::{PollResult, ViewPoller};
use super::view_data::{Jobs, ViewData};
use super::*;
use crate::client::cview::actions::ActionKind;
use crate::client::cview::app::Prompt;
use crate::client::cview::keys::Key;
use crate::client::cview::view_data::{ClusterSummary, JobItem};
use crate::client::read::test_cluster;
use crate::client::read::test_view::{NOW, TestView};
use crate::model::{JobKey, JobStat, Spec, Stamp, Token};
use crate::record::ack::{Ack, Code, Outcome};
use crate::record::view::{HostRow, JobRow};
use crate::show::Dates;
use crate::text::width::width;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use ratatui_core::backend::TestBackend;
use ratatui_core::style::Color;
use ratatui_core::terminal::Terminal;
use std::sync::Arc;

fn dates() -> Dates {
    Dates::new(TimeZone::UTC).now(NOW)
}

fn ctx(source: &Source) -> Ctx {
    Ctx {
        now: Stamp(NOW),
        dates: dates(),
        ..source.ctx_with_estimates()
    }
}

/// A user of cview on the small cluster.
struct TestSession {
    view: TestView,
    app: App,
    looking: ViewPoller,
    terminal: Terminal<TestBackend>,
    color: bool,
    language: Language,
    rows: usize,
}

impl TestSession {
    fn new(screen: Screen, size: (u16, u16)) -> TestSession {
        let mut bed = TestSession {
            view: test_cluster::cluster(),
            app: App::new(screen, size),
            looking: ViewPoller::default(),
            terminal: Terminal::new(TestBackend::new(size.0, size.1)).unwrap(),
            color: false,
            language: Language::English,
            rows: 0,
        };
        bed.read();
        bed
    }

    fn read(&mut self) {
        let source = self.view.source("cview", 10);
        match self
            .looking
            .poll(&source, &self.app.needed_data(), ctx(&source))
        {
            PollResult::Data(data) => self.app.set_data(*data, NOW),
            PollResult::Unchanged => {}
            PollResult::Failed(why) => self.app.fail(why),
        }
    }

    /// Presses keys, then reads the data that the screen needs. Capital words are single keys.
    fn keys(&mut self, keys: &[Key]) -> SessionEffect {
        let mut effect = SessionEffect::None;
        for key in keys {
            effect = handle_key(&mut self.app, *key);
            self.read();
        }
        effect
    }

    fn types(&mut self, text: &str) -> SessionEffect {
        let keys: Vec<Key> = text.chars().map(Key::Char).collect();
        self.keys(&keys)
    }

    fn draw(&mut self) -> &Buffer {
        let look = DisplayOptions {
            color: self.color,
            cursor: true,
            language: self.language,
        };
        let dates = dates();
        let moment = DrawTime {
            now: NOW,
            dates: &dates,
            hangs_s: None,
        };
        let (app, rows) = (&self.app, &mut self.rows);
        let drawn = self.terminal.draw(|frame| {
            *rows = draw::draw(app, look, &moment, frame.buffer_mut());
        });
        // The buffer of the backend is not used: unlike a terminal it keeps cells that a wide
        // character covers.
        drawn.unwrap().buffer
    }

    fn screen(&mut self) -> Vec<String> {
        draw::lines_of(self.draw())
    }

    fn has(&mut self, text: &str) -> bool {
        self.screen().iter().any(|line| line.contains(text))
    }

    /// The last two lines.
    fn below(&mut self) -> [String; 2] {
        let lines = self.screen();
        [
            lines[lines.len() - 2].clone(),
            lines[lines.len() - 1].clone(),
        ]
    }
}

/// Compares frames with the golden file of this name; no line is wider than its screen.
fn golden(name: &str, lines: &[&str], language: Language) {
    let bed = test_cluster::cluster();
    test_cluster::compare(name, lines, |words| {
        let m = test_cluster::parse(options(), words);
        let size = size(m.last("size")).unwrap();
        let app = initial_app(&m, size).unwrap();
        let source = bed.source("cview", 10);
        let ctx = ctx(&source);
        let drawn = print_once(app, &source, ctx, language).expect("it draws");
        let columns = drawn.lines().map(width).max();
        assert!(columns <= Some(usize::from(size.0)), "{drawn}");
        // The path differs between tests, but not its length.
        let share = bed.dir.path().to_str().unwrap();
        drawn.replace(share, "/share")
    });
}

#[test]
fn golden_output() {
    let lines = [
        "-once",
        "-once -a -f -size 60x20",
        "-once -a -f -size 130x16",
        "-once -a -filter state:RUN -size 80x12",
        "-once -screen queues -size 80x14",
        "-once -screen queues -size 60x20",
        "-once -screen hosts -size 80x12",
        "-once -screen hosts -size 60x20",
        "-once -screen job 6 -size 80x24",
        "-once -screen job '4[3]' -size 60x20",
        "-once -screen host h1 -size 80x24",
        "-once -screen host h1 -size 60x20",
    ];
    golden("cview", &lines, Language::English);
}

#[test]
fn golden_output_in_chinese() {
    let lines = [
        "-once -size 80x24",
        "-once -a -f -size 60x20",
        "-once -a -filter nothing -size 80x8",
        "-once -screen queues -size 80x14",
        "-once -screen queues -size 60x12",
        "-once -screen hosts -size 80x12",
        "-once -screen job 6 -size 80x24",
        "-once -screen host h1 -size 60x12",
    ];
    golden("cview-zh", &lines, Language::Chinese);
}

#[test]
fn dialogs_are_in_the_language_of_the_person() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.language = Language::Chinese;
    bed.types("K");
    assert_eq!(bed.below()[1], "终止 1 个作业: 3? (y/n)");
    bed.types("n");
    assert_eq!(bed.below()[0], "没有做任何事");
    bed.types("/作业");
    assert_eq!(bed.below()[1], "筛选： 作业_");
    assert!(bed.has("没有符合筛选的项；按 Esc 取消筛选"));
    bed.types(" x:y");
    let fields = "没有字段 x；可用的有：id user state queue host name project";
    assert_eq!(bed.below()[0], fields);
    bed.keys(&[Key::Esc]);
    bed.types("s");
    let sort = "按 JOBID 排序？  左 右：另一列  Enter：确定  0：原来的顺序";
    assert_eq!(bed.below()[1], sort);
    bed.keys(&[Key::Esc]);
    bed.types("2C");
    assert_eq!(bed.below()[1], "关闭 1 台主机；备注，可留空： _");
    bed.keys(&[Key::Enter]);
    bed.types("y");
    assert_eq!(bed.below()[0], "关闭 1 台主机：正在等待主调度器应答");
    bed.app.answered(Err("nothing is selected".to_owned()));
    assert_eq!(bed.below()[0], "关闭 1 台主机: 没有选中任何项");
    bed.types("K?");
    assert!(bed.has(" K S R          作业：终止、挂起、恢复"));
    assert_eq!(bed.below()[1], "任意键：返回");
}

#[test]
fn every_screen_has_its_cursor_its_titles_and_its_keys() {
    for size in [(80, 24), (60, 20)] {
        let titles = [
            (Screen::Queues, "QUEUE", "[1 Queues]"),
            (Screen::Hosts, "HOST", "[2 Hosts]"),
            (Screen::Jobs, "JOBID", "[3 Jobs]"),
        ];
        for (screen, title, name) in titles {
            let mut bed = TestSession::new(screen, size);
            let lines = bed.screen();
            assert_eq!(lines.len(), usize::from(size.1));
            assert!(lines[0].starts_with("c1  leader h1, epoch 7"), "{lines:?}");
            assert!(lines[0].ends_with("03:07:09"), "{lines:?}");
            assert!(lines[1].contains(name), "{lines:?}");
            assert!(
                lines.iter().any(|l| l.starts_with(&format!("  {title}"))),
                "{lines:?}"
            );
            assert_eq!(
                lines.iter().filter(|l| l.starts_with('>')).count(),
                1,
                "{lines:?}"
            );
            assert!(
                lines[lines.len() - 1].starts_with("?:help  q:quit"),
                "{lines:?}"
            );
            // The alarm of the cluster.
            assert!(lines[lines.len() - 2].starts_with("alarm: snapshot/notes.txt"));
        }
    }
}

#[test]
fn screens_are_changed_by_number_tab_and_enter_and_left_by_q_and_esc() {
    let mut bed = TestSession::new(Screen::Queues, (80, 24));
    let tab = |bed: &mut TestSession, key| {
        bed.keys(&[key]);
        bed.app.screen()
    };
    assert_eq!(tab(&mut bed, Key::Tab), Screen::Hosts);
    assert_eq!(tab(&mut bed, Key::Tab), Screen::Jobs);
    assert_eq!(tab(&mut bed, Key::Tab), Screen::Job);
    assert!(bed.has("Job <3>, Job Name <job3>"), "{:?}", bed.screen());
    assert_eq!(tab(&mut bed, Key::Tab), Screen::Queues);
    assert_eq!(tab(&mut bed, Key::BackTab), Screen::Jobs);
    assert_eq!(tab(&mut bed, Key::Char('2')), Screen::Hosts);
    assert_eq!(tab(&mut bed, Key::Enter), Screen::Host);
    assert!(bed.has("HOST  h1"), "{:?}", bed.screen());
    assert_eq!(tab(&mut bed, Key::Char('q')), Screen::Hosts);
    assert_eq!(tab(&mut bed, Key::Char('4')), Screen::Host);
    // Filters by that host, then by a queue.
    assert_eq!(tab(&mut bed, Key::Enter), Screen::Jobs);
    assert_eq!(bed.app.jobs.arrangement.filter.text, "host:h1");
    bed.keys(&[Key::Char('1'), Key::Down, Key::Enter]);
    assert_eq!(bed.app.jobs.arrangement.filter.text, "queue:normal");
    assert!(bed.app.needed_jobs.all_users);
    assert_eq!(
        bed.keys(&[Key::Esc]),
        SessionEffect::None,
        "the filter is taken away"
    );
    assert!(bed.app.jobs.arrangement.filter.is_empty());
    assert_eq!(bed.types("q"), SessionEffect::Quit);
    assert_eq!(bed.keys(&[Key::Ctrl('c')]), SessionEffect::Interrupt);
    assert_eq!(bed.keys(&[Key::Ctrl('z')]), SessionEffect::Suspend);
}

#[test]
fn an_array_unfolds_and_folds_and_the_cursor_stays_on_it() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.keys(&[Key::End]);
    assert!(bed.has("> +4 "), "{:?}", bed.screen());
    bed.keys(&[Key::Enter]);
    assert!(
        bed.has("> -4 ") && bed.has("4[3]") && bed.has("4[5]"),
        "{:?}",
        bed.screen()
    );
    bed.keys(&[Key::Down, Key::Enter]);
    assert_eq!(
        bed.app.page.subject,
        Some(Subject::Job(JobKey::element(4, 2)))
    );
    bed.keys(&[Key::Esc, Key::Up, Key::Enter]);
    assert!(!bed.has("4[3]"), "{:?}", bed.screen());
}

#[test]
fn a_filter_is_seen_while_it_is_typed_and_esc_takes_it_back() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.types("a/user:u2");
    assert!(bed.below()[1].starts_with("Filter: user:u2_"));
    assert!(bed.has("nothing matches"), "{:?}", bed.screen());
    bed.types("0");
    assert!(bed.has("1/1"), "{:?}", bed.screen());
    bed.keys(&[Key::Enter]);
    assert!(bed.has("/user:u20 all 1/1"), "{:?}", bed.screen());
    bed.types("/nix:x");
    assert!(bed.below()[0].starts_with("no field nix; there are: id user"));
    // A wrong filter is not applied.
    bed.keys(&[Key::Enter]);
    assert!(bed.below()[1].starts_with("Filter: user:u20 nix:x"));
    bed.keys(&[Key::Esc]);
    assert_eq!(bed.app.jobs.arrangement.filter.text, "user:u20");
    bed.types("/");
    bed.keys(&[Key::Ctrl('u'), Key::Enter]);
    assert!(bed.app.jobs.arrangement.filter.is_empty());
}

#[test]
fn lists_are_sorted_by_the_chosen_column() {
    let first = |bed: &mut TestSession| bed.screen()[3].clone();
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.types("as");
    assert!(bed.below()[1].starts_with("Sort by JOBID?"));
    bed.keys(&[Key::Enter, Key::Home]);
    assert!(first(&mut bed).contains(" 1 "), "{:?}", bed.screen());
    assert!(bed.has("sort JOBID all"), "{:?}", bed.screen());
    bed.types("r");
    bed.keys(&[Key::Home]);
    assert!(first(&mut bed).contains(" 6 "), "{:?}", bed.screen());
    bed.types("ss");
    assert!(bed.below()[1].starts_with("Sort by USER?"));
    bed.keys(&[Key::Left, Key::Left]);
    assert!(bed.below()[1].starts_with("Sort by NAME?"));
    bed.types("0");
    assert_eq!(bed.app.jobs.arrangement.column, None);
}

#[test]
fn an_act_is_asked_before_it_is_done_and_its_answer_is_shown() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    assert_eq!(bed.types("K"), SessionEffect::None);
    assert_eq!(bed.below()[1], "Kill 1 job: 3? (y/n)");
    assert_eq!(bed.types("n"), SessionEffect::None);
    assert_eq!(bed.below()[0], "nothing was done");
    // Two marked rows, one of them an array.
    bed.keys(&[Key::Char(' '), Key::End, Key::Char(' ')]);
    assert!(bed.has("2 marked") && bed.has(">*+4"), "{:?}", bed.screen());
    bed.types("K");
    assert_eq!(bed.below()[1], "Kill 5 jobs: 3, 4? (y/n)");
    let SessionEffect::Ask(action) = bed.types("y") else {
        panic!("nothing is asked");
    };
    assert_eq!(
        (action.act, action.names.join(" ")),
        (ActionKind::Kill, "3 4".into())
    );
    assert_eq!(
        bed.below()[0],
        "Kill 5 jobs: waiting for the leader's answer"
    );
    let mut ack = Ack::empty(Token(1));
    ack.results.push(Outcome {
        what: "3".into(),
        code: Code::Permission,
        text: "permission denied".into(),
    });
    bed.app.answered(Ok(ack));
    assert_eq!(bed.below()[0], "Job <3>: Permission denied");
    assert!(bed.app.jobs.marks.is_empty());
    bed.types("S");
    assert!(matches!(bed.types("y"), SessionEffect::Ask(_)));
    bed.app
        .answered(Err("no answer within 60 s: x\nhint".into()));
    assert_eq!(bed.below()[0], "Stop 4 jobs: no answer within 60 s: x");
}

#[test]
fn only_whole_jobs_are_moved_and_hosts_are_closed_with_a_comment() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.keys(&[Key::End, Key::Enter, Key::Down]);
    bed.types("T");
    assert!(
        bed.below()[0].starts_with("4[2] is an element"),
        "{:?}",
        bed.below()
    );
    bed.keys(&[Key::Up]);
    bed.types("T");
    assert_eq!(bed.below()[1], "Move 1 job to the top: 4? (y/n)");
    bed.types("n2C");
    assert!(bed.below()[1].starts_with("Close 1 host; comment, may be empty: _"));
    bed.types("disk y");
    bed.keys(&[Key::Backspace, Key::Backspace, Key::Enter]);
    assert_eq!(bed.below()[1], "Close 1 host: h1 \"disk\"? (y/n)");
    let SessionEffect::Ask(action) = bed.types("y") else {
        panic!("nothing is asked");
    };
    assert_eq!(
        (action.act, action.comment.as_str()),
        (ActionKind::CloseHosts, "disk")
    );
    // On the page of a host, the action applies to that host.
    bed.keys(&[Key::Down, Key::Enter]);
    bed.types("O");
    assert_eq!(bed.below()[1], "Open 1 host: h2? (y/n)");
    bed.types("n1O");
    assert!(
        bed.below()[1].starts_with("Open 1 queue: a_queue"),
        "{:?}",
        bed.below()
    );
    // Letters for jobs have no effect on queues.
    bed.types("nK");
    assert!(bed.below()[1].starts_with("?:help"));
}

#[test]
fn the_cursor_stays_on_its_job_when_the_view_changes() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    bed.keys(&[Key::Down, Key::Down]);
    let selected = |app: &App| app.jobs.selected().unwrap().key(&app.cluster.jobs);
    assert_eq!(selected(&bed.app), JobKey::job(1));
    bed.types("a");
    assert_eq!(
        selected(&bed.app),
        JobKey::job(1),
        "one more stands before it"
    );
    assert_eq!(bed.app.jobs.cursor, 3);
}

#[test]
fn states_have_colours_only_where_they_may() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    let colors = |bed: &mut TestSession| {
        let cells = bed.draw().content().iter();
        cells.filter(|cell| cell.fg != Color::Reset).count()
    };
    assert_eq!(colors(&mut bed), 0);
    bed.color = true;
    assert!(colors(&mut bed) > 8, "{}", colors(&mut bed));
}

#[test]
fn control_characters_and_wide_ones_do_no_harm() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    let row = JobRow {
        j: JobKey::job(9),
        name: "a\u{1b}[31m\u{202e}作业".into(),
        ..JobRow::default()
    };
    let spec = Spec {
        user: "u\n10".into(),
        queue: "q".repeat(40),
        ..Spec::default()
    };
    let item = JobItem::of(&row, &Arc::new(spec), (0, 0, 0, row.j));
    let data = ViewData {
        head: ClusterSummary {
            cluster: "c\u{7}".into(),
            alarms: vec!["\u{1b}]0;x".into()],
            ..ClusterSummary::default()
        },
        jobs: Some(Jobs::of(vec![item])),
        ..ViewData::default()
    };
    bed.app.set_data(data, NOW);
    let lines = bed.screen();
    let hidden = |c: char| crate::text::width::is_hidden(c);
    assert!(
        !lines.iter().any(|line| line.chars().any(hidden)),
        "{lines:?}"
    );
    assert!(
        lines[3].contains("u\\n10") && lines[3].contains("\\u{202e}作业"),
        "{lines:?}"
    );
    assert!(lines[0].contains("c\\x07"), "{lines:?}");
}

#[test]
fn a_small_screen_says_so_and_every_size_is_drawn() {
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    for size in [
        (1, 1),
        (39, 24),
        (80, 7),
        (40, 8),
        (41, 9),
        (200, 60),
        (300, 100),
    ] {
        bed.terminal = Terminal::new(TestBackend::new(size.0, size.1)).unwrap();
        bed.app.resize(size);
        for key in ['1', '2', '3', '4', '?', 'x', '/', '\u{e9}'] {
            handle_key(&mut bed.app, Key::Char(key));
            assert_eq!(bed.screen().len(), usize::from(size.1));
        }
        handle_key(&mut bed.app, Key::Esc);
        handle_key(&mut bed.app, Key::Char('3'));
        let small = size.0 < 40 || size.1 < 8;
        assert_eq!(bed.has("JOBID"), !small, "{size:?}");
    }
}

#[test]
fn a_page_moves_down_and_to_the_side_and_follows_its_end() {
    let mut bed = TestSession::new(Screen::Hosts, (60, 10));
    bed.keys(&[Key::Enter]);
    assert!(!bed.has("DISPATCH_WINDOW"));
    bed.keys(&[Key::Right, Key::Right, Key::Right, Key::Right]);
    assert!(bed.has("DISPATCH_WINDOW"), "{:?}", bed.screen());
    bed.keys(&[Key::Right, Key::Right, Key::Home, Key::End]);
    assert!(
        bed.has("line 16/16") && bed.app.page.at_end,
        "{:?}",
        bed.screen()
    );
    let mut page = bed.app.cluster.page.clone().unwrap();
    page.lines.push("one more line".into());
    let data = ViewData {
        page: Some(page),
        ..ViewData::default()
    };
    bed.app.set_data(data, NOW);
    bed.keys(&[Key::Left, Key::Left, Key::Left, Key::Left]);
    assert!(bed.has("one more line"), "{:?}", bed.screen());
    bed.keys(&[Key::Up]);
    assert!(!bed.app.page.at_end);
    // Another page starts at its top.
    bed.keys(&[Key::Esc, Key::Down, Key::Enter]);
    assert_eq!((bed.app.page.top, bed.app.page.left_column), (0, 0));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_keys_do_harm_and_nothing_is_asked_without_a_yes(
        keys in proptest::collection::vec(0..KEYS.len(), 1..60),
        columns in 30u16..120,
        rows in 5u16..40,
    ) {
        let mut bed = TestSession::new(Screen::Jobs, (columns, rows));
        for (n, key) in keys.into_iter().enumerate() {
            let key = KEYS[key];
            let asks = matches!(bed.app.prompt, Prompt::Confirm(_));
            let effect = handle_key(&mut bed.app, key);
            if let SessionEffect::Ask(action) = effect {
                prop_assert!(asks && key == Key::Char('y'), "{action:?}");
                prop_assert!(!action.names.is_empty() && action.count > 0);
            }
            if n % 8 == 0 {
                bed.read();
            }
            prop_assert_eq!(bed.screen().len(), usize::from(rows));
        }
    }
}

/// Keys that have an effect on some screen.
const KEYS: [Key; 40] = [
    Key::Enter,
    Key::Esc,
    Key::Tab,
    Key::BackTab,
    Key::Backspace,
    Key::Up,
    Key::Down,
    Key::Left,
    Key::Right,
    Key::PageUp,
    Key::PageDown,
    Key::Home,
    Key::End,
    Key::Ctrl('u'),
    Key::Char('1'),
    Key::Char('2'),
    Key::Char('3'),
    Key::Char('4'),
    Key::Char('/'),
    Key::Char('?'),
    Key::Char('s'),
    Key::Char('r'),
    Key::Char('a'),
    Key::Char('f'),
    Key::Char(' '),
    Key::Char('U'),
    Key::Char('K'),
    Key::Char('S'),
    Key::Char('R'),
    Key::Char('T'),
    Key::Char('B'),
    Key::Char('Q'),
    Key::Char('O'),
    Key::Char('C'),
    Key::Char('y'),
    Key::Char('n'),
    Key::Char(':'),
    Key::Char('0'),
    Key::Char('u'),
    Key::Char('作'),
];

#[test]
fn the_help_names_the_keys() {
    let mut bed = TestSession::new(Screen::Jobs, (60, 20));
    bed.types("?");
    assert!(
        bed.has("kill, stop, resume") && bed.has("any key: back"),
        "{:?}",
        bed.screen()
    );
    bed.types("q");
    assert!(bed.has("JOBID"));
}

/// With a hundred thousand jobs, only visible rows are formatted, whatever key is pressed.
#[test]
fn of_a_hundred_thousand_jobs_only_visible_rows_are_put_into_words() {
    const JOBS: u32 = 100_000;
    let spec = Arc::new(Spec {
        user: "u10".into(),
        queue: "normal".into(),
        ..Spec::default()
    });
    let item = |id: u32| {
        let row = JobRow {
            j: JobKey::job(id),
            stat: if id.is_multiple_of(10) {
                JobStat::Run
            } else {
                JobStat::Pend
            },
            name: format!("job{id}").into(),
            ..JobRow::default()
        };
        JobItem::of(&row, &spec, (0, 0, i64::from(id), row.j))
    };
    let mut bed = TestSession::new(Screen::Jobs, (80, 24));
    let data = |n: u32| ViewData {
        jobs: Some(Jobs::of((1..=n).map(item).collect())),
        ..ViewData::default()
    };
    bed.app.set_data(data(JOBS), NOW);
    let on_screen = bed.app.rows();
    assert_eq!(on_screen, 19);
    let mut press_and_draw = |keys: &[Key]| {
        for key in keys {
            handle_key(&mut bed.app, *key);
        }
        bed.draw();
        assert_eq!(bed.rows, on_screen);
        let line = bed.app.jobs.selected().unwrap();
        (line.key(&bed.app.cluster.jobs).id, bed.app.jobs.lines.len())
    };
    assert_eq!(press_and_draw(&[Key::Home]), (1, 100_000));
    assert_eq!(press_and_draw(&[Key::End]), (JOBS, 100_000));
    assert_eq!(press_and_draw(&[Key::PageUp, Key::Up]), (99_980, 100_000));
    assert_eq!(press_and_draw(&[Key::Home, Key::PageDown]), (20, 100_000));
    assert_eq!(
        press_and_draw(&[Key::Char('s'), Key::Enter, Key::Char('r')]),
        (20, 100_000)
    );
    let typed: Vec<Key> = "/state:run".chars().map(Key::Char).collect();
    // The cursor keeps its position in the list, on the last page.
    assert_eq!(press_and_draw(&typed).1, 10_000);
    assert_eq!(press_and_draw(&[Key::Enter, Key::Home]), (JOBS, 10_000));
    // Cursor keys do not rebuild the list: its memory stays the same.
    let before = bed.app.jobs.lines.as_ptr();
    for _ in 0..1000 {
        handle_key(&mut bed.app, Key::Down);
    }
    assert_eq!(bed.app.jobs.lines.as_ptr(), before);
    assert_eq!(bed.app.jobs.cursor, 1000);
}

#[test]
fn many_hosts_scroll_and_the_last_line_is_reached() {
    let mut bed = TestSession::new(Screen::Hosts, (60, 20));
    let host = |n: u32| HostRow {
        name: format!("h{n}"),
        status: "ok".into(),
        ..HostRow::default()
    };
    let data = ViewData {
        hosts: Some((1..=500).map(host).collect()),
        ..ViewData::default()
    };
    bed.app.set_data(data, NOW);
    handle_key(&mut bed.app, Key::End);
    assert!(bed.has("> h500"), "{:?}", bed.screen());
    assert_eq!(bed.app.hosts.top, 500 - bed.app.rows());
    handle_key(&mut bed.app, Key::PageUp);
    handle_key(&mut bed.app, Key::Home);
    assert_eq!((bed.app.hosts.top, bed.app.hosts.cursor), (0, 0));
}

fn asked(words: &[&str]) -> Result<App> {
    let m = test_cluster::parse(options(), words);
    initial_app(&m, SIZE)
}

#[test]
fn what_is_not_there_is_no_frame() {
    let bed = test_cluster::cluster();
    let ask = |screen, subject| {
        let source = bed.source("cview", 10);
        let mut app = App::new(screen, SIZE);
        app.page.subject = Some(subject);
        let ctx = ctx(&source);
        print_once(app, &source, ctx, Language::English).unwrap_err()
    };
    let fail = ask(Screen::Job, Subject::Job(JobKey::job(99)));
    assert_eq!(fail, Fail::not_found("Job <99> is not found"));
    let fail = ask(Screen::Host, Subject::Host("hh1".into()));
    assert!(fail.text.contains("did you mean"), "{}", fail.text);
}

#[test]
fn wrong_options_are_named() {
    let wrong = |words: &[&str]| match asked(words) {
        Err(fail) => fail.text,
        Ok(_) => panic!("{words:?} is taken"),
    };
    assert!(wrong(&["-screen", "jbos"]).contains("no screen 'jbos'"));
    assert!(wrong(&["-screen", "job"]).contains("need a job or host"));
    assert!(wrong(&["-screen", "job", "4[0]x"]).contains("does not name one job"));
    assert!(wrong(&["-screen", "job", "007"]).contains("does not name one job"));
    assert!(wrong(&["12"]).contains("only be given with -screen job or host"));
    assert!(wrong(&["-filter", "usr:1"]).contains("no field usr"));
    assert!(
        wrong(&["-screen", "host", "h1", "-filter", "x"]).contains("only be given with a list")
    );
    let app = asked(&["-a", "-f", "-filter", "user:u1"]).unwrap();
    assert!(
        app.needed_jobs.all_users
            && app.needed_jobs.finished
            && !app.jobs.arrangement.filter.is_empty()
    );
    assert_eq!(interval(None), Ok(1000));
    assert_eq!(interval(Some("0.5")), Ok(500));
    for bad in ["0", "-1", "x", "nan", "inf", "0.01", "3601"] {
        assert!(interval(Some(bad)).is_err(), "{bad}");
    }
    assert_eq!(size(Some("132x40")), Ok((132, 40)));
    for bad in ["80", "0x5", "80x", "x", "80x24x1", "9999x2"] {
        assert!(size(Some(bad)).is_err(), "{bad}");
    }
}
