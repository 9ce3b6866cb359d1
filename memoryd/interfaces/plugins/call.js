import { spawn } from "node:child_process"

const PROGRAM = "@PROGRAM@"
const OPTIONS = "@OPTIONS@"

function hook(event, payload) {
  return new Promise((resolve) => {
    let answer = ""
    try {
      const child = spawn(PROGRAM[0], [...PROGRAM.slice(1), event, ...OPTIONS], { stdio: ["pipe", "pipe", "ignore"] })
      // spawn's own timeout outlives a program that is not there, and with it the agent's end.
      const late = setTimeout(() => child.kill(), 5000)
      const done = (text) => {
        clearTimeout(late)
        resolve(text)
      }
      child.on("error", () => done(""))
      child.on("close", (code) => done(code === 0 ? answer : ""))
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (part) => (answer += part))
      child.stdin.on("error", () => {})
      child.stdin.end(JSON.stringify(payload))
    } catch {
      resolve("")
    }
  })
}
