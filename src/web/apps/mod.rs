//! Programs of running jobs in a browser: Jupyter, VS Code, TensorBoard, desktops.
//!
//! - `names`: each program has its own host name, so that its pages share no origin with the
//!   portal or with each other.
//! - `tunnel`: the connection through the job. `forward`: one request. `headers`: their filter.
//!
//! Owns the right of access: only the job's user, with a session. The portal's page `/apps/ID`
//! gives a ticket that is valid once, for a minute; at the program's own name it becomes a cookie
//! of that name, which ends with the session. The portal's cookie is never sent there.

mod forward;
mod headers;
mod names;
mod tunnel;

use crate::error::WebError;
use crate::fields::Fields;
use crate::guard::{self, Caller, DisplaySettings, session_only};
use crate::identity::Identity;
use crate::rest::key_of;
use crate::sessions::is_same;
use crate::{App, Settings, blocking};
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use corral::api::attach::{AttachRequest, ProgramAnnouncement, read_announced};
use corral::model::{JobKey, JobStat};
use corral::record::portal::digest;
use corral::sys;
use forward::{Program, unreached};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use tunnel::Tunnel;

/// Validity of a ticket, ms.
const TICKET_MS: i64 = 60_000;
/// Maximum number of tickets and of open programs in total, and of each for one session.
const TICKETS_MAX: usize = 1_000;
const VISITS_MAX: usize = 4_096;
const OF_SESSION_MAX: usize = 32;
/// Maximum number of tunnels to jobs, in total and for one user.
pub const TUNNELS_MAX: usize = 64;
pub const OF_USER_MAX: usize = 8;
/// Interval at which requests count as a use of the session, ms.
const USED_MS: i64 = 60_000;
/// The path that takes a ticket, at a program's own name.
const ENTER: &str = "/.corral/enter";
/// Maximum size of the login form sent to a program, and of its response.
const LOGIN_MAX: usize = 1 << 20;

/// The right of a session to see the program of a job.
#[derive(Clone)]
struct AccessRight {
    identity: Identity,
    /// The secret of the session.
    session: String,
    key: JobKey,
}

struct Ticket {
    access_right: AccessRight,
    announced: ProgramAnnouncement,
    ends: i64,
}

/// A program that is open in a browser.
struct OpenProgram {
    access_right: AccessRight,
    port: u16,
    used_at: i64,
    /// When a request last counted as a use of the session.
    counted_at: i64,
}

type SharedTunnel = Arc<OnceCell<Arc<Tunnel>>>;

/// All open programs. Secrets are stored as digests.
#[derive(Default)]
pub struct Apps {
    tickets: Mutex<HashMap<String, Ticket>>,
    visits: Mutex<HashMap<String, OpenProgram>>,
    /// By job and session.
    tunnels: Mutex<HashMap<(JobKey, String), (u32, SharedTunnel)>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the oldest entry: of the session if it has [`OF_SESSION_MAX`] entries, or of all if
/// there are `most`. So the entries of a single session do not displace those of others.
fn make_room<T>(
    all: &mut HashMap<String, T>,
    most: usize,
    of_session: impl Fn(&T) -> bool,
    since: impl Fn(&T) -> i64,
) {
    let own = all.values().filter(|one| of_session(one)).count();
    let full = all.len() >= most;
    if own < OF_SESSION_MAX && !full {
        return;
    }
    let removable = all.iter().filter(|(_, one)| full || of_session(one));
    let oldest = removable.min_by_key(|(_, one)| since(one));
    if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
        all.remove(&oldest);
    }
}

/// The name of the cookie at programs' names.
fn cookie_name(settings: &Settings) -> String {
    format!("{}_app", settings.cookie)
}

/// Whether a cookie is the portal's, which a program can neither see nor set.
fn is_own_cookie(settings: &Settings, name: &str) -> bool {
    name == settings.cookie
        || name == cookie_name(settings)
        || [guard::LANGUAGE, guard::THEME].contains(&name)
}

impl Apps {
    fn give_ticket(
        &self,
        access_right: AccessRight,
        announced: ProgramAnnouncement,
        now: i64,
    ) -> String {
        let secret = sys::clock::nonce(32);
        let mut all = lock(&self.tickets);
        all.retain(|_, ticket| ticket.ends > now);
        let of_session =
            |ticket: &Ticket| is_same(&ticket.access_right.session, &access_right.session);
        make_room(&mut all, TICKETS_MAX, of_session, |ticket| ticket.ends);
        let ends = now + TICKET_MS;
        let ticket = Ticket {
            access_right,
            announced,
            ends,
        };
        all.insert(digest(&secret), ticket);
        secret
    }

    /// Uses up a ticket for this job's program.
    fn take_ticket(&self, secret: &str, key: JobKey, now: i64) -> Option<Ticket> {
        let ticket = lock(&self.tickets).remove(&digest(secret))?;
        (ticket.access_right.key == key && ticket.ends > now).then_some(ticket)
    }

    fn begin_visit(&self, access_right: AccessRight, port: u16, now: i64) -> String {
        let secret = sys::clock::nonce(32);
        let mut all = lock(&self.visits);
        let of_session =
            |visit: &OpenProgram| is_same(&visit.access_right.session, &access_right.session);
        make_room(&mut all, VISITS_MAX, of_session, |visit| visit.used_at);
        let visit = OpenProgram {
            access_right,
            port,
            used_at: now,
            counted_at: now,
        };
        all.insert(digest(&secret), visit);
        secret
    }

    /// The right that a cookie gives to this job's program, the program's port, and whether this
    /// request counts as a use of the session.
    fn visit(&self, secret: &str, key: JobKey, now: i64) -> Option<(AccessRight, u16, bool)> {
        let mut all = lock(&self.visits);
        let visit = all.get_mut(&digest(secret))?;
        if visit.access_right.key != key {
            return None;
        }
        visit.used_at = now;
        let counts = now - visit.counted_at >= USED_MS;
        if counts {
            visit.counted_at = now;
        }
        Some((visit.access_right.clone(), visit.port, counts))
    }

    fn end_visit(&self, secret: &str) {
        lock(&self.visits).remove(&digest(secret));
    }

    /// The cell of the tunnel to a job; the tunnel may not have been started yet.
    fn tunnel_for(&self, right: &AccessRight) -> Result<SharedTunnel, WebError> {
        let mut all = lock(&self.tunnels);
        // A cell without a tunnel is kept while the tunnel is being started.
        all.retain(|_, (_, tunnel_cell)| match tunnel_cell.get() {
            Some(tunnel) => !tunnel.is_over(),
            None => Arc::strong_count(tunnel_cell) > 1,
        });
        let tunnel_key = (right.key, right.session.clone());
        if let Some((_, tunnel_cell)) = all.get(&tunnel_key) {
            return Ok(tunnel_cell.clone());
        }
        let of_user = all
            .values()
            .filter(|(uid, _)| *uid == right.identity.uid)
            .count();
        let most = match (of_user >= OF_USER_MAX, all.len() >= TUNNELS_MAX) {
            (true, _) => OF_USER_MAX,
            (_, true) => TUNNELS_MAX,
            _ => {
                let tunnel_cell = SharedTunnel::default();
                all.insert(tunnel_key, (right.identity.uid, tunnel_cell.clone()));
                return Ok(tunnel_cell);
            }
        };
        let why = format!("programs of {most} jobs are open, which is the maximum");
        Err(WebError {
            hint: "log out and in to close them, or wait ten minutes".to_owned(),
            ..WebError::new(StatusCode::TOO_MANY_REQUESTS, why)
        })
    }

    fn forget_tunnel(&self, right: &AccessRight) {
        lock(&self.tunnels).remove(&(right.key, right.session.clone()));
    }

    /// Closes everything that a session has open.
    pub fn end_session(&self, session: &str) {
        lock(&self.tickets).retain(|_, ticket| ticket.access_right.session != session);
        lock(&self.visits).retain(|_, visit| visit.access_right.session != session);
        lock(&self.tunnels).retain(|(_, of), (_, tunnel_cell)| {
            let stays = of != session;
            if let Some(tunnel) = tunnel_cell.get().filter(|_| !stays) {
                tunnel.end();
            }
            stays
        });
    }
}

/// The tunnel to a job; it is started if there is none.
async fn tunnel_to(app: &App, right: &AccessRight) -> Result<Arc<Tunnel>, WebError> {
    let tunnel_cell = app.apps.tunnel_for(right)?;
    let begun = tunnel_cell.get_or_try_init(|| async {
        let (actor, who, key) = (app.actor.clone(), right.identity.clone(), right.key);
        let program = blocking(move || {
            let (id, idx) = (key.id, key.idx);
            Ok(actor.attend(&who, &AttachRequest::Tunnel { id, idx })?)
        });
        let tunnel = Tunnel::begin(app, &right.session, program.await?);
        tunnel.map_err(|e| unreached(sys::reason(&e)))
    });
    match begun.await {
        Ok(tunnel) => Ok(tunnel.clone()),
        Err(failure) => {
            app.apps.forget_tunnel(right);
            Err(failure)
        }
    }
}

/// `GET /apps/{id}` of the portal: redirects to the program of one of the caller's jobs.
pub(crate) async fn open(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: axum::http::HeaderMap,
) -> Result<Response, WebError> {
    session_only(&caller)?;
    let key = key_of(&id)?;
    let host = guard::text(&headers, header::HOST);
    let program_host = names::host_of(key, host, &app.settings).ok_or_else(|| WebError {
        hint: "its administrator starts it with --apps-domain".to_owned(),
        ..WebError::new(
            StatusCode::CONFLICT,
            "programs of jobs need their own host names, and this portal has none for them",
        )
    })?;
    let (app_copy, who) = (app.clone(), caller.identity.clone());
    blocking(move || {
        let job = app_copy.actor.reader(&who)?.job(key)?;
        check_job(who.uid, job.spec.uid, job.row.stat)
    })
    .await?;
    let right = AccessRight {
        identity: caller.identity,
        session: caller.secret,
        key,
    };
    let tunnel = tunnel_to(&app, &right).await?;
    let about = tunnel.about().await.map_err(unreached)?;
    let announced = read_announced(&about, key.id, key.idx).map_err(unreached)?;
    let now = sys::clock::wall_ms();
    let ticket = app.apps.give_ticket(right, announced, now);
    // Without a scheme, so that the browser keeps the one by which it called the portal.
    Ok(Redirect::to(&format!("//{program_host}{ENTER}?ticket={ticket}")).into_response())
}

/// Only the user's own program, and only while the job runs.
fn check_job(me: u32, owner: u32, stat: JobStat) -> Result<(), WebError> {
    if owner != me {
        let why = "the job is another user's: only its user opens its program";
        return Err(WebError::new(StatusCode::FORBIDDEN, why));
    }
    match stat {
        JobStat::Run => Ok(()),
        _ => Err(WebError::new(StatusCode::CONFLICT, "the job does not run")),
    }
}

/// Serves requests to names of programs; passes all others to the portal.
pub async fn route_by_name(State(app): State<App>, request: Request, next: Next) -> Response {
    let host = guard::text(request.headers(), header::HOST).to_owned();
    let Some(key) = names::job_of(&host, &app.settings) else {
        return next.run(request).await;
    };
    let begun = sys::clock::boot_ms();
    let display = DisplaySettings::of(request.headers());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let mut user = String::new();
    let response = match serve(&app, key, &host, request, &mut user).await {
        Ok(response) => response,
        Err(error) => plain(&error, display),
    };
    let (status, path) = (
        response.status().as_u16(),
        corral::text::width::escape(&path),
    );
    let took = sys::clock::boot_ms().saturating_sub(begun);
    tracing::info!("job {key}: {method} {path} {status} {took} ms user={user}");
    response
}

/// A refusal at a program's name: plain text, without the portal's pages.
fn plain(error: &WebError, display: DisplaySettings) -> Response {
    let mut text = display.words.t(error.title()).to_owned();
    for line in [&error.why, &error.hint] {
        if !line.is_empty() {
            text.push_str("\n\n");
            text.push_str(line);
        }
    }
    text.push('\n');
    let headers = [
        ("content-type", "text/plain; charset=utf-8"),
        (
            "content-security-policy",
            "default-src 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
    ];
    (error.status, headers, text).into_response()
}

async fn serve(
    app: &App,
    key: JobKey,
    host: &str,
    request: Request,
    user: &mut String,
) -> Result<Response, WebError> {
    let foreign = || WebError::new(StatusCode::FORBIDDEN, "the request comes from another site");
    let (method, headers) = (request.method(), request.headers());
    if headers.get_all(header::HOST).iter().count() != 1 {
        return Err(WebError::wrong("more than one Host"));
    }
    if request.uri().path() == ENTER {
        let given = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
        let given = given.filter(|_| method == Method::GET).unwrap_or_default();
        return redeem_ticket(app, key, given.get("ticket"), user).await;
    }
    headers::check_origin(method, headers, host).map_err(|headers::CrossSite| foreign())?;
    let closed = || WebError {
        hint: "open it from the page of the job".to_owned(),
        ..WebError::new(StatusCode::FORBIDDEN, "this program is not open here")
    };
    let secret = guard::cookie(headers, &cookie_name(&app.settings)).ok_or_else(closed)?;
    let now = sys::clock::wall_ms();
    let (right, port, counts) = app.apps.visit(secret, key, now).ok_or_else(closed)?;
    user.clone_from(&right.identity.name);
    if !app.sessions().is_there(&right.session, now)
        || (counts && !count_use(app, &right, now).await)
    {
        app.apps.end_visit(secret);
        return Err(closed());
    }
    let tunnel = tunnel_to(app, &right).await?;
    let settings = app.settings.clone();
    let program = Program {
        tunnel: &tunnel,
        port,
        is_own_cookie: &move |name| is_own_cookie(&settings, name),
    };
    program.forward(request).await
}

/// Counts a request as a use of the session; false: the session has ended.
async fn count_use(app: &App, right: &AccessRight, now: i64) -> bool {
    let is_there = app.sessions().find(&right.session, now).is_some();
    let (actor, session) = (app.actor.clone(), right.session.clone());
    is_there
        && blocking(move || Ok(actor.may_go_on(&session)))
            .await
            .unwrap_or(false)
}

/// Takes a ticket: sets the cookie of this name, and redirects to the program's start page, with
/// the token that the program requires.
async fn redeem_ticket(
    app: &App,
    key: JobKey,
    ticket: &str,
    user: &mut String,
) -> Result<Response, WebError> {
    let now = sys::clock::wall_ms();
    let ticket = app.apps.take_ticket(ticket, key, now);
    let used = || WebError {
        hint: "open it again from the page of the job".to_owned(),
        ..WebError::new(
            StatusCode::FORBIDDEN,
            "this link was used, or is older than a minute",
        )
    };
    let Ticket {
        access_right,
        announced,
        ..
    } = ticket.ok_or_else(used)?;
    user.clone_from(&access_right.identity.name);
    if !app.sessions().is_there(&access_right.session, now) {
        return Err(used());
    }
    let first = start_path(&announced);
    let mut response = (StatusCode::SEE_OTHER, [(header::LOCATION, first)]).into_response();
    for cookie in log_in(app, &access_right, &announced).await {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    let secret = app.apps.begin_visit(access_right, announced.port, now);
    let name = cookie_name(&app.settings);
    let secure = if app.settings.encrypted {
        "; Secure"
    } else {
        ""
    };
    // A Strict cookie would not be sent after this response, because the redirect came from another
    // site.
    let cookie = format!("{name}={secret}; Path=/; HttpOnly; SameSite=Lax{secure}");
    let cookie = HeaderValue::from_str(&cookie).map_err(|_| WebError::internal())?;
    response.headers_mut().append(header::SET_COOKIE, cookie);
    let fixed = [
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
    ];
    for (name, value) in fixed {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    Ok(response)
}

/// The program's start page. The token is where this kind of program expects it.
fn start_path(announced: &ProgramAnnouncement) -> String {
    let (path, token) = (&announced.path, &announced.token);
    let is_plain = token.bytes().all(|b| b.is_ascii_alphanumeric());
    if token.is_empty() || !is_plain {
        return path.clone();
    }
    let mark = if path.contains('?') { '&' } else { '?' };
    match announced.kind.as_str() {
        "jupyter" => format!("{path}{mark}token={token}"),
        // Browsers do not send fragments to servers.
        "vnc" => format!("{path}#password={token}"),
        _ => path.clone(),
    }
}

/// Logs in to a program that expects its password in a form (code-server); returns its cookies.
/// Empty if the program refuses the password; the user is then prompted for it.
async fn log_in(
    app: &App,
    right: &AccessRight,
    announced: &ProgramAnnouncement,
) -> Vec<HeaderValue> {
    if announced.kind != "vscode" || announced.token.is_empty() {
        return Vec::new();
    }
    let form = [("password", announced.token.as_str())];
    let form = serde_urlencoded::to_string(form).unwrap_or_default();
    let request = Request::post("/login")
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .header(header::CONTENT_LENGTH, form.len())
        .body(Body::from(form));
    let (Ok(request), Ok(tunnel)) = (request, tunnel_to(app, right).await) else {
        return Vec::new();
    };
    let settings = app.settings.clone();
    let program = Program {
        tunnel: &tunnel,
        port: announced.port,
        is_own_cookie: &move |name| is_own_cookie(&settings, name),
    };
    let Ok(answer) = program.forward(request).await else {
        return Vec::new();
    };
    let cookies = answer
        .headers()
        .get_all(header::SET_COOKIE)
        .iter()
        .cloned()
        .collect();
    // Read to the end, so that the program can finish the connection.
    let _ = axum::body::to_bytes(answer.into_body(), LOGIN_MAX).await;
    cookies
}

#[cfg(test)]
mod tests {
    use super::*;

    fn right(session: &str, id: u32) -> AccessRight {
        AccessRight {
            identity: Identity::new(7, "u"),
            session: session.to_owned(),
            key: JobKey::job(id),
        }
    }

    fn announced(kind: &str, path: &str, token: &str) -> ProgramAnnouncement {
        ProgramAnnouncement {
            kind: kind.into(),
            path: path.into(),
            port: 9,
            token: token.into(),
        }
    }

    #[test]
    fn a_ticket_is_good_once_for_its_job_and_for_a_minute() {
        let apps = Apps::default();
        let give = |now| apps.give_ticket(right("s", 1), announced("x", "/", ""), now);
        let ticket = give(0);
        assert!(apps.take_ticket("x", JobKey::job(1), 1).is_none());
        assert!(apps.take_ticket(&ticket, JobKey::job(1), 1).is_some());
        assert!(
            apps.take_ticket(&ticket, JobKey::job(1), 1).is_none(),
            "used"
        );
        let ticket = give(0);
        assert!(
            apps.take_ticket(&ticket, JobKey::job(2), 1).is_none(),
            "another job's"
        );
        assert!(
            apps.take_ticket(&ticket, JobKey::job(1), 1).is_none(),
            "and spent by that"
        );
        let ticket = give(0);
        assert!(
            apps.take_ticket(&ticket, JobKey::job(1), TICKET_MS)
                .is_none(),
            "too old"
        );
    }

    #[test]
    fn many_tickets_of_one_session_push_out_its_own_alone() {
        let apps = Apps::default();
        let give = |session, now| apps.give_ticket(right(session, 1), announced("x", "/", ""), now);
        let (other, first) = (give("other", 0), give("s", 0));
        for n in 1..=TICKETS_MAX as i64 {
            give("s", n);
        }
        assert!(apps.take_ticket(&first, JobKey::job(1), 1).is_none());
        assert!(apps.take_ticket(&other, JobKey::job(1), 1).is_some());
    }

    #[test]
    fn a_visit_is_of_one_job_and_ends_with_its_session() {
        let apps = Apps::default();
        let visit = apps.begin_visit(right("s", 1), 9, 0);
        assert!(apps.visit(&visit, JobKey::job(1), 1).is_some());
        assert!(apps.visit(&visit, JobKey::job(2), 1).is_none());
        assert!(apps.visit("x", JobKey::job(1), 1).is_none());
        apps.end_session("other");
        assert!(apps.visit(&visit, JobKey::job(1), 1).is_some());
        apps.end_session("s");
        assert!(apps.visit(&visit, JobKey::job(1), 1).is_none());
        let first = apps.begin_visit(right("s", 1), 9, 5);
        for n in 0..OF_SESSION_MAX as i64 {
            apps.begin_visit(right("s", 1), 9, 10 + n);
        }
        assert!(
            apps.visit(&first, JobKey::job(1), 99).is_none(),
            "the oldest gives way"
        );
    }

    #[test]
    fn ways_are_counted_and_one_that_was_given_up_is_not() {
        let apps = Apps::default();
        let tunnels: Vec<SharedTunnel> = (0..OF_USER_MAX as u32)
            .map(|id| apps.tunnel_for(&right("s", id)).unwrap())
            .collect();
        let more = |id| apps.tunnel_for(&right("s", id)).map(drop);
        assert!(more(0).is_ok(), "it is there");
        let refused = more(99).unwrap_err();
        assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
        drop(tunnels);
        assert!(more(99).is_ok());
    }

    #[test]
    fn only_the_own_running_job_is_opened() {
        assert!(check_job(7, 7, JobStat::Run).is_ok());
        let status = |owner, stat| check_job(7, owner, stat).unwrap_err().status;
        assert_eq!(status(8, JobStat::Run), StatusCode::FORBIDDEN);
        for stat in JobStat::ALL
            .into_iter()
            .filter(|stat| *stat != JobStat::Run)
        {
            assert_eq!(status(7, stat), StatusCode::CONFLICT);
        }
    }

    #[test]
    fn each_kind_gets_what_it_asks_for_where_it_looks() {
        let first = |kind, path, token| start_path(&announced(kind, path, token));
        assert_eq!(first("jupyter", "/lab", "5f"), "/lab?token=5f");
        assert_eq!(first("jupyter", "/lab?a=b", "5f"), "/lab?a=b&token=5f");
        assert_eq!(
            first("vnc", "/vnc.html?x=1", "5f"),
            "/vnc.html?x=1#password=5f"
        );
        assert_eq!(first("tensorboard", "/", ""), "/");
        assert_eq!(first("vscode", "/", "5f"), "/", "by a form");
        assert_eq!(first("jupyter", "/", "a\r\nb"), "/");
    }
}
