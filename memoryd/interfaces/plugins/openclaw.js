// Written by `memoryd connect openclaw`: gives a session what memoryd remembers, and says when it compacts or ends.
// `memoryd connect openclaw --remove --write` takes it away. It never fails a session: no answer is an empty one.
import { spawnSync } from "node:child_process"
@CALL@

// A group or channel, whose others would read in the answers what is remembered of one of them.
const SHARED = /:(?:group|channel|room)(?::|$)/
const SPAWNED = /:subagent:/
const TOOLS = /^memoryd/i

export default {
  id: "memoryd",
  name: "memoryd",
  description: "Gives a session what memoryd remembers",
  register(api) {
    const sessions = new Map()
    const parents = new Map()
    // What a session spawns answers it; of who was spawned before this was loaded, nobody knows by whom.
    const isShared = (key = "") =>
      SHARED.test(key) || (SPAWNED.test(key) && (!parents.has(key) || isShared(parents.get(key))))
    // The end of a session names it, but not where it was.
    const known = (ctx) => {
      const id = ctx?.sessionId ?? ""
      const key = id || `in ${ctx?.workspaceDir}`
      if (!sessions.has(key)) sessions.set(key, { about: { session_id: id, cwd: ctx?.workspaceDir } })
      return sessions.get(key)
    }
    api.on("before_prompt_build", async (event, ctx) => {
      if (isShared(ctx?.sessionKey)) return {}
      const session = known(ctx)
      const text = await (session.told ??= hook("session-start", session.about))
      const prompt = event?.currentUserMessage ?? event?.prompt
      const asks = prompt && (ctx?.trigger ?? "user") === "user"
      const found = asks ? await hook("prompt", { ...session.about, prompt }) : ""
      return { ...(text ? { appendSystemContext: text } : {}), ...(found ? { prependContext: found } : {}) }
    })
    api.on("before_tool_call", async (event, ctx) => {
      if (!TOOLS.test(event?.toolName ?? "") || !isShared(ctx?.sessionKey)) return
      return { block: true, blockReason: "memoryd answers no group or channel, nor what was spawned there: others read along." }
    })
    api.on("subagent_spawned", async (event, ctx) => {
      const [child, parent] = [event?.childSessionKey, ctx?.requesterSessionKey]
      if (child && parent && child !== parent) parents.set(child, parent)
    })
    api.on("before_compaction", async (event, ctx) => {
      const session = known(ctx)
      session.told = undefined
      await hook("pre-compact", { ...session.about, transcript_path: event?.sessionFile })
    })
    // A run without a gateway tells no end: its sessions end with the process, which waits for nothing but this.
    process.once("exit", () => {
      for (const { about } of sessions.values()) {
        const [input, stdio] = [JSON.stringify(about), ["pipe", "ignore", "ignore"]]
        spawnSync(PROGRAM[0], [...PROGRAM.slice(1), "session-end", ...OPTIONS], { input, stdio, timeout: 5000 })
      }
    })
    api.on("session_end", async (event, ctx) => {
      const { about } = known(ctx)
      sessions.delete(about.session_id)
      if (event?.reason !== "compaction") await hook("session-end", { ...about, transcript_path: event?.sessionFile })
    })
  },
}
