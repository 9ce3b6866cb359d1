// Written by `memoryd connect openclaw`: gives a session what memoryd knows of its user, and says when it compacts.
// `memoryd connect openclaw --remove --write` takes it away. It never fails a session: no answer is an empty one.
@CALL@

const EVENTS = {
  "session:compact:before": "pre-compact",
  "command:new": "session-end",
  "command:reset": "session-end",
}

export default async function (event) {
  const context = event?.context ?? {}
  const entry = context.previousSessionEntry ?? context.sessionEntry ?? {}
  const about = { session_id: context.sessionId ?? entry.sessionId, cwd: context.workspaceDir }
  if (event?.type === "agent" && event?.action === "bootstrap") {
    if (!Array.isArray(context.bootstrapFiles)) return
    const content = await hook("session-start", about)
    const file = { name: "MEMORYD.md", path: "MEMORYD.md", content, missing: false, virtual: true }
    if (content) context.bootstrapFiles.push(file)
    return
  }
  const announced = EVENTS[`${event?.type}:${event?.action}`]
  if (announced) await hook(announced, { ...about, transcript_path: entry.sessionFile })
}
