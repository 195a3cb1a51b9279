"""What each method of Slack's Web API does in the local workspace: messages, threads, files, modals, people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.fakes.slack_forms import form_problem, view_problem

if TYPE_CHECKING:
    from tests.fakes.slack import FakeSlack

Answer = dict[str, Any]


def error(code: str, **more: Any) -> Answer:
    return {"ok": False, "error": code} | more


def _auth_test(slack: FakeSlack, _: Answer) -> Answer:
    return {
        "ok": True, "url": "https://example.invalid/", "team": "Local", "user": "calmon", "team_id": slack.team,
        "user_id": "U0BOT",
    }  # fmt: skip


def _cannot_write(slack: FakeSlack, id: str | None) -> Answer | None:
    """The refusal if nothing can be posted to the channel with that id, else None."""
    name = next((n for n, i in slack.channels.items() if i == id), "")
    if id is None:
        return error("channel_not_found")
    if name in slack.archived:
        return error("is_archived")
    return error("not_in_channel") if name in slack.not_member else None


def _post_message(slack: FakeSlack, arguments: Answer) -> Answer:
    id = slack.channel_id(str(arguments.get("channel", "")))
    text, blocks = arguments.get("text") or "", arguments.get("blocks") or []
    refused = slack.lacks("chat:write") or _cannot_write(slack, id)
    refused = refused or form_problem(text, blocks, arguments.get("metadata"))
    if refused:
        return refused
    message = slack.add(str(id), text, blocks, arguments.get("metadata"), str(arguments.get("thread_ts") or ""))
    return {"ok": True, "channel": id, "ts": message["ts"], "message": message}


def _update(slack: FakeSlack, arguments: Answer) -> Answer:
    id = arguments.get("channel")  # an id: Slack takes names for posting only
    if id not in slack.channels.values():
        return error("channel_not_found")
    text, blocks = arguments.get("text") or "", arguments.get("blocks") or []
    refused = slack.lacks("chat:write") or form_problem(text, blocks, arguments.get("metadata"))
    message = slack.message(str(id), str(arguments.get("ts")))
    if refused or message is None:
        return refused or error("message_not_found")
    if next(n for n, i in slack.channels.items() if i == id) in slack.archived:
        return error("is_archived")
    # parts that are not given do not change, nor does the metadata
    message |= {"text": text, "blocks": blocks, "edited": {"user": "U0BOT", "ts": slack.next_ts()}}
    message |= {"metadata": arguments["metadata"]} if arguments.get("metadata") else {}
    return {"ok": True, "channel": id, "ts": message["ts"], "text": text, "message": message}


def _ephemeral(slack: FakeSlack, arguments: Answer) -> Answer:
    id, text = slack.channel_id(str(arguments.get("channel", ""))), arguments.get("text") or ""
    refused = slack.lacks("chat:write") or _cannot_write(slack, id)
    refused = refused or form_problem(text, arguments.get("blocks") or [], None)
    if refused:
        return refused
    if arguments.get("user") not in slack.people:
        return error("user_not_in_channel")
    slack.private.append({"channel": id, "user": arguments["user"], "text": text})
    return {"ok": True, "message_ts": slack.next_ts()}


def _page(slack: FakeSlack, items: list[Answer], arguments: Answer) -> tuple[list[Answer], str]:
    first = int(str(arguments.get("cursor") or "at:0").removeprefix("at:"))
    size = min(int(arguments.get("limit") or 100), slack.page_size)
    return items[first : first + size], f"at:{first + size}" if first + size < len(items) else ""


def _list(slack: FakeSlack, arguments: Answer) -> Answer:
    types = str(arguments.get("types") or "public_channel").split(",")
    refused = slack.lacks("channels:read") or (slack.lacks("groups:read") if "private_channel" in types else None)
    if refused:
        return refused
    found = [{"id": id, "name": name, "is_archived": name in slack.archived} for name, id in slack.channels.items()]
    page, cursor = _page(slack, found, arguments)
    return {"ok": True, "channels": page, "response_metadata": {"next_cursor": cursor}}


def _history(slack: FakeSlack, arguments: Answer) -> Answer:
    """The channel's messages, newest first, without answers in threads."""
    low, high = float(arguments.get("oldest") or 0), float(arguments.get("latest") or "inf")
    found = [m for m in reversed(slack.messages) if m["channel"] == arguments.get("channel") and _is_top(m)]
    return _told(slack, [m for m in found if low < float(m["ts"]) < high], arguments)


def _replies(slack: FakeSlack, arguments: Answer) -> Answer:
    """The message and its thread, oldest first."""
    channel, ts = str(arguments.get("channel")), str(arguments.get("ts"))
    if channel in slack.channels.values() and slack.message(channel, ts) is None:
        return slack.lacks("channels:history") or error("thread_not_found")
    found = [m for m in slack.messages if m["channel"] == channel and ts in (m["ts"], m.get("thread_ts"))]
    return _told(slack, found, arguments)


def _is_top(message: Answer) -> bool:
    return message.get("thread_ts", message["ts"]) == message["ts"]


def _told(slack: FakeSlack, found: list[Answer], arguments: Answer) -> Answer:
    refused = slack.lacks("channels:history")
    if refused:
        return refused
    if arguments.get("channel") not in slack.channels.values():  # Slack takes names for posting only
        return error("channel_not_found")
    if str(arguments.get("include_all_metadata", "")).lower() not in ("1", "true"):
        found = [{k: v for k, v in m.items() if k != "metadata"} for m in found]
    page, cursor = _page(slack, found, arguments)
    return {"ok": True, "messages": page, "has_more": bool(cursor), "response_metadata": {"next_cursor": cursor}}


def _upload_url(slack: FakeSlack, arguments: Answer) -> Answer:
    refused = slack.lacks("files:write")
    if refused:
        return refused
    name, length = arguments.get("filename"), int(arguments.get("length") or 0)
    if not name or length <= 0:
        return error("invalid_arguments")
    if len(str(arguments.get("alt_txt") or "")) > 1000:
        return error("alt_txt_too_large")
    id = f"F{len(slack.files) + 1:03d}"
    slack.files[id] = {"id": id, "name": name, "length": length, "alt_txt": arguments.get("alt_txt"), "content": None}
    return {"ok": True, "upload_url": f"{slack.url.removesuffix('api/')}upload/v1/{id}", "file_id": id}


def _complete_upload(slack: FakeSlack, arguments: Answer) -> Answer:
    """Show the uploaded files in a channel or thread, as a message of their own."""
    given = json.loads(arguments.get("files") or "[]")
    refused = slack.lacks("files:write")
    if refused or not given:
        return refused or error("invalid_arguments")
    if any(slack.files.get(one.get("id"), {}).get("content") is None for one in given):
        return error("file_not_found")
    if any(slack.files[one["id"]].get("shown") for one in given):
        return error("file_update_failed")
    shown = [_shown(slack.files[one["id"]], one.get("title")) for one in given]
    id = arguments.get("channel_id")
    if id:
        refused = _cannot_write(slack, id if id in slack.channels.values() else None)
        if refused:
            return refused
        text = arguments.get("initial_comment") or ""
        slack.add(id, text, [], None, str(arguments.get("thread_ts") or "")).update(files=shown, upload=True)
        for one in given:
            slack.files[one["id"]]["shown"] = True
    return {"ok": True, "files": shown}


def _shown(file: Answer, title: str | None) -> Answer:
    return {"id": file["id"], "name": file["name"], "title": title or file["name"], "alt_txt": file["alt_txt"]}


def _open_view(slack: FakeSlack, arguments: Answer) -> Answer:
    trigger = arguments.get("trigger_id")
    if trigger not in slack.triggers:
        return error("invalid_trigger_id" if not trigger else "expired_trigger_id")
    view = arguments.get("view")
    view = json.loads(view) if isinstance(view, str) else view
    refused = view_problem(view)
    if refused:
        return refused
    slack.triggers.discard(trigger)  # valid for one modal
    opened = dict(view or {}) | {"id": f"V{len(slack.views) + 1:03d}", "team_id": slack.team}
    slack.views.append(opened)
    return {"ok": True, "view": opened}


def _group_users(slack: FakeSlack, arguments: Answer) -> Answer:
    refused = slack.lacks("usergroups:read")
    if refused:
        return refused
    users = slack.groups.get(str(arguments.get("usergroup")))
    return error("no_such_subteam") if users is None else {"ok": True, "users": users}


def _user(slack: FakeSlack, arguments: Answer) -> Answer:
    refused = slack.lacks("users:read")
    if refused:
        return refused
    id = str(arguments.get("user"))
    name = slack.people.get(id)
    return error("user_not_found") if name is None else {"ok": True, "user": {"id": id, "name": name}}


def _open_socket(slack: FakeSlack, _: Answer) -> Answer:
    if slack.socket is None:
        return error("internal_error")
    return {"ok": True, "url": slack.socket.new_url()}


METHODS = {
    "auth.test": _auth_test, "chat.postMessage": _post_message, "chat.update": _update,
    "chat.postEphemeral": _ephemeral, "conversations.list": _list, "conversations.history": _history,
    "conversations.replies": _replies, "files.getUploadURLExternal": _upload_url,
    "files.completeUploadExternal": _complete_upload, "views.open": _open_view,
    "usergroups.users.list": _group_users, "users.info": _user,
}  # fmt: skip
#: Methods that need the app token instead of the bot token.
APP_METHODS = {"apps.connections.open": _open_socket}
