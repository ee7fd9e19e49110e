//! Files through the router: what is shown and downloaded, what must not be reached, uploads in
//! parts.

use crate::bed::{EVIL, READ_TOKEN, SUBMIT_TOKEN, TestPortal};
use axum::http::StatusCode;
use corral_web::guard::BODY_MAX;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

#[tokio::test]
async fn names_and_texts_are_shown_as_text_whatever_they_are() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let get = async |path: &str| bed.get(path, &[("cookie", &login.cookie)]).await;
    let evil = EVIL.replace('/', "");
    for name in [
        evil.as_bytes(),
        b"raw\xff\xfe",
        b"\x1b[31mred",
        "\u{202e}txt".as_bytes(),
    ] {
        std::fs::write(bed.home().join(OsStr::from_bytes(name)), "<b>\x1b[0m</b>").unwrap();
    }
    std::fs::create_dir(bed.home().join("<dir>")).unwrap();
    let page = get("/files").await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text);
    assert!(!page.text.contains(&evil) && !page.text.contains("<dir>"));
    assert!(page.text.contains("raw\\xff\\xfe") && page.text.contains("\\x1b[31mred"));
    assert!(!page.text.contains('\u{202e}') && !page.text.contains('\u{1b}'));
    assert!(page.text.contains("path=raw%FF%FE"), "{}", page.text);
    let file = get("/files/view?path=raw%FF%FE").await;
    assert_eq!(file.status, StatusCode::OK, "{}", file.text);
    assert!(file.text.contains("&#60;b&#62;\\x1b[0m"), "{}", file.text);
    let list = get("/api/v1/files?count=2&from=1").await.json();
    assert_eq!(
        (
            list["total"].as_u64(),
            list["items"].as_array().unwrap().len()
        ),
        (Some(5), 2)
    );
    assert_eq!(get("/files?path=none").await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_file_is_never_a_page_of_the_portal() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let get = async |path: &str| bed.get(path, &[("cookie", &login.cookie)]).await;
    std::fs::write(bed.home().join("x.html"), EVIL).unwrap();
    std::fs::write(bed.home().join("x.svg"), "<svg onload='alert(1)'/>").unwrap();
    std::fs::write(bed.home().join("x.txt"), b"\x89PNG\r\n\x1a\n").unwrap();
    for path in [
        "/files/download?path=x.html",
        "/api/v1/files/content?path=x.html",
    ] {
        let file = get(path).await;
        assert_eq!((file.status, file.text.as_str()), (StatusCode::OK, EVIL));
        assert_eq!(file.header("content-type"), "application/octet-stream");
        assert!(
            file.header("content-disposition")
                .starts_with("attachment;")
        );
        assert_eq!(file.header("x-content-type-options"), "nosniff");
        assert!(
            file.header("content-security-policy")
                .contains("default-src 'none'")
        );
    }
    let svg = get("/files/picture?path=x.svg").await;
    assert_eq!(svg.status, StatusCode::BAD_REQUEST, "it can hold scripts");
    let picture = get("/files/picture?path=x.txt").await;
    assert_eq!(picture.header("content-type"), "image/png");
    let page = get("/files/view?path=x.html").await;
    assert!(!page.text.contains(EVIL) && page.text.contains("&#60;script&#62;"));
}

#[tokio::test]
async fn nothing_leads_out_of_the_directory_that_was_chosen() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    std::fs::write(bed.share().join("secret"), "secret-text").unwrap();
    symlink("../secret", bed.home().join("up")).unwrap();
    symlink("/etc/passwd", bed.home().join("absolute")).unwrap();
    symlink("/etc", bed.home().join("etc")).unwrap();
    for path in [
        "../secret",
        "..%2fsecret",
        "x/../../secret",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "up",
        "absolute",
        "etc/passwd",
        "up%00.txt",
    ] {
        for place in ["/files/download", "/files/picture", "/api/v1/files/content"] {
            let url = format!("{place}?path={path}");
            let answer = bed.get(&url, &[("cookie", &login.cookie)]).await;
            assert!(answer.status.is_client_error(), "{url}: {}", answer.status);
            assert!(!answer.text.contains("secret-text") && !answer.text.contains("root:"));
        }
        let auth = bearer(SUBMIT_TOKEN);
        let headers = [("authorization", auth.as_str())];
        for act in ["mkdir?", "rename?to=x&", "upload?size=1&"] {
            let url = format!("/api/v1/files/{act}path={path}");
            // A link itself can be renamed.
            let is_own = act.starts_with("rename") && !path.contains(['.', '/', '%']);
            let answer = bed.post(&url, "x", &headers).await;
            assert!(
                answer.status.is_client_error() || is_own,
                "{url}: {}",
                answer.text
            );
            if is_own {
                let back = format!("/api/v1/files/rename?path=x&to={path}");
                assert_eq!(bed.post(&back, "", &headers).await.status, StatusCode::OK);
            }
        }
    }
    let left = std::fs::read_to_string(bed.share().join("secret")).unwrap();
    assert_eq!(left, "secret-text");
    let list = bed.get("/files", &[("cookie", &login.cookie)]).await.text;
    assert!(
        list.contains("/files?root=/etc&#38;path="),
        "its target is offered: {list}"
    );
}

#[tokio::test]
async fn who_may_touch_files_is_asked_first() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    std::fs::write(bed.home().join("key"), "key-text").unwrap();
    let auth = bearer(READ_TOKEN);
    for path in [
        "/files",
        "/files/view?path=key",
        "/files/download?path=key",
        "/api/v1/files",
        "/api/v1/files/content?path=key",
        "/api/v1/files/upload?path=key",
        "/api/v1/jobs/1/texts",
    ] {
        let answer = bed.get(path, &[("authorization", &auth)]).await;
        assert_eq!(
            answer.status,
            StatusCode::FORBIDDEN,
            "a token that reads: {path}"
        );
        assert!(!answer.text.contains("key-text"));
        let nobody = bed.get(path, &[]).await;
        assert!(matches!(nobody.status.as_u16(), 303 | 401), "{path}");
    }
    let cookie = ("cookie", login.cookie.as_str());
    for act in ["remove", "mkdir", "rename"] {
        let url = format!("/files/{act}?path=key");
        let answer = bed.form(&url, "name=x", &[cookie]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "no token of the form");
        let answer = bed.post(&format!("/api/v1{url}&to=x"), "", &[cookie]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
    }
    assert!(bed.home().join("key").exists());
}

#[tokio::test]
async fn forms_make_rename_and_remove() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let send = async |path: &str, fields: &str| {
        let body = format!("csrf={}&{fields}", login.csrf);
        bed.form(path, &body, &[("cookie", &login.cookie)]).await
    };
    let made = send("/files/mkdir?path=", "name=a+b").await;
    assert_eq!(made.status, StatusCode::SEE_OTHER, "{}", made.text);
    assert!(bed.home().join("a b").is_dir());
    assert_eq!(
        send("/files/mkdir", "name=a+b").await.status,
        StatusCode::CONFLICT
    );
    for name in ["..", "x%2Fy", ""] {
        let answer = send("/files/mkdir", &format!("name={name}")).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
    let renamed = send("/files/rename?path=a%20b", "name=c").await;
    assert_eq!(renamed.header("location"), "/files?root=/h/me&path=");
    std::fs::write(bed.home().join("c/f"), "x").unwrap();
    let full = send("/files/remove?path=c", "").await;
    assert!(full.text.contains("not empty"), "{}", full.text);
    for path in ["c/f", "c"] {
        let answer = send(&format!("/files/remove?path={path}"), "").await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{path}");
    }
    assert!(!bed.home().join("c").exists());
    assert!(
        send("/files/remove?path=", "")
            .await
            .status
            .is_client_error()
    );
}

#[tokio::test]
async fn an_upload_comes_in_parts_and_goes_on_where_it_stopped() {
    let bed = TestPortal::new();
    let login = bed.login().await;
    let headers = [
        ("cookie", login.cookie.as_str()),
        ("x-csrf-token", login.csrf.as_str()),
        ("content-type", "application/octet-stream"),
    ];
    let part = async |query: &str, bytes: &[u8]| {
        let url = format!("/api/v1/files/upload?path=big&{query}");
        bed.post_bytes(&url, bytes, &headers).await
    };
    let data: Vec<u8> = (0..300_000u32).map(|n| (n % 251) as u8).collect();
    let size = data.len();
    let first = part(&format!("size={size}"), &data[..200_000]).await.json();
    assert_eq!(
        (first["received"].as_u64(), first["done"].as_bool()),
        (Some(200_000), Some(false))
    );
    let lost = part(&format!("size={size}&offset=250000"), &data[250_000..])
        .await
        .json();
    assert_eq!(
        (lost["taken"].as_bool(), lost["received"].as_u64()),
        (Some(false), Some(200_000))
    );
    let asked = bed
        .get("/api/v1/files/upload?path=big", &headers)
        .await
        .json();
    assert_eq!(asked["received"], 200_000);
    assert!(!bed.home().join("big").exists());
    let last = part(&format!("size={size}&offset=200000"), &data[200_000..])
        .await
        .json();
    assert_eq!(last["done"], true);
    assert_eq!(std::fs::read(bed.home().join("big")).unwrap(), data);
    assert_eq!(part("size=1", b"x").await.status, StatusCode::CONFLICT);
    assert_eq!(part("size=1&replace=yes", b"x").await.json()["done"], true);
    assert_eq!(part("", b"x").await.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        part("size=1&replace=yes", b"xx").await.status,
        StatusCode::BAD_REQUEST
    );
    let most = part(&format!("size={BODY_MAX}&replace=yes"), &vec![7; BODY_MAX]).await;
    assert_eq!(most.json()["done"], true, "{}", most.text);
    assert_eq!(
        std::fs::metadata(bed.home().join("big")).unwrap().len(),
        BODY_MAX as u64
    );
    assert_eq!(part("size=1&replace=yes", b"x").await.json()["done"], true);
    let huge = part(&format!("size={}", BODY_MAX + 1), &vec![0; BODY_MAX + 1]).await;
    assert_eq!(huge.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(std::fs::read(bed.home().join("big")).unwrap(), b"x");
}

#[tokio::test]
async fn a_download_gives_the_part_that_is_asked_for() {
    let bed = TestPortal::new();
    let auth = bearer(SUBMIT_TOKEN);
    let data: Vec<u8> = (0..3_000_000u32).map(|n| (n % 253) as u8).collect();
    std::fs::write(bed.home().join("d"), &data).unwrap();
    let get = async |more: &[(&str, &str)]| {
        let mut headers = vec![("authorization", auth.as_str())];
        headers.extend(more);
        bed.get("/api/v1/files/content?path=d", &headers).await
    };
    let all = get(&[]).await;
    assert_eq!((all.status, all.bytes == data), (StatusCode::OK, true));
    assert_eq!(all.header("content-length"), "3000000");
    let part = get(&[("range", "bytes=2000000-")]).await;
    assert_eq!(part.status, StatusCode::PARTIAL_CONTENT);
    assert_eq!(
        part.header("content-range"),
        "bytes 2000000-2999999/3000000"
    );
    assert!(part.bytes == data[2_000_000..]);
    let tag = all.header("etag").to_owned();
    let same = get(&[("range", "bytes=0-0"), ("if-range", &tag)]).await;
    assert_eq!(
        (same.status, same.bytes.as_slice()),
        (StatusCode::PARTIAL_CONTENT, &data[..1])
    );
    let other = get(&[("range", "bytes=0-0"), ("if-range", "\"old\"")]).await;
    assert_eq!(other.status, StatusCode::OK, "the file is another one");
    let behind = get(&[("range", "bytes=3000000-")]).await;
    assert_eq!(behind.status, StatusCode::RANGE_NOT_SATISFIABLE);
    std::fs::write(bed.home().join("empty"), "").unwrap();
    let empty = bed
        .get(
            "/api/v1/files/content?path=empty",
            &[("authorization", &auth)],
        )
        .await;
    assert_eq!((empty.status, empty.bytes.len()), (StatusCode::OK, 0));
}
