//! Pages for users: HTML rendered on the server, readable without scripts.
//!
//! Owns the paths of pages. `frame` has what surrounds every page; the file of a page collects its
//! data, its template defines the layout. Every visible word comes from the catalogue.

mod admin;
mod apps;
mod assets;
mod chart;
mod files;
mod frame;
mod hosts;
mod job;
mod jobs;
mod lists;
mod login;
mod overview;
mod submit;
mod terminal;
mod text;
mod usage;

pub use frame::MENU;

use crate::App;
use axum::Router;
use axum::routing::{get, post};

/// The routes of all pages and of their forms.
pub fn routes() -> Router<App> {
    Router::new()
        .route("/", get(overview::show))
        .route("/login", get(login::show).post(login::log_in))
        .route("/logout", post(login::log_out))
        .route("/settings", post(login::set))
        .route("/jobs", get(jobs::show))
        .route("/jobs/act", post(jobs::act))
        .route("/jobs/{id}", get(job::show))
        .route("/jobs/{id}/clone", post(apps::clone_job))
        .route("/jobs/{id}/form", get(apps::form_of_job))
        .route("/submit", get(submit::show).post(submit::submit))
        .route("/submit/check", post(submit::check))
        .route("/submit/app/{name}", get(apps::show).post(apps::submit))
        .route("/submit/app/{name}/check", post(apps::check))
        .route("/terminal", get(terminal::list).post(terminal::begin))
        .route("/terminal/{name}", get(terminal::show))
        .route("/terminal/{name}/close", post(terminal::close))
        .route("/files", get(files::list))
        .route("/files/view", get(files::view))
        .route("/files/download", get(files::download))
        .route("/files/picture", get(files::picture))
        .route("/files/mkdir", post(files::make_dir))
        .route("/files/rename", post(files::rename))
        .route("/files/remove", post(files::remove))
        .route("/hosts", get(hosts::list))
        .route("/hosts/{name}", get(hosts::one))
        .route("/queues", get(lists::queues))
        .route("/limits", get(lists::limits))
        .route("/shares", get(lists::shares))
        .route("/cron", get(lists::crons))
        .route("/resources", get(lists::resources))
        .route("/usage", get(usage::show))
        .route("/admin", get(admin::show))
        .route("/admin/act", post(admin::act))
        .route("/admin/check", post(admin::check))
        .route("/admin/config", get(admin::config))
        .route("/admin/config/check", post(admin::check_config))
        .route("/admin/config/save", post(admin::save_config))
        .route("/assets/vendor/{name}", get(assets::give_vendored))
        .route("/assets/{name}", get(assets::give))
}
