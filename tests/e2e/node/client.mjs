// A client as applications have it: pusher-js, alone or under Laravel Echo. Tells each thing that
// happens as a line of JSON, for the test that started it; ends when its input does.
//
//     node client.mjs '{"library": "pusher", "key": ..., "options": {...}, "channels": [...]}'

import Echo from "laravel-echo";
import Pusher from "pusher-js";

const { library, key, options, channels, events } = JSON.parse(process.argv[2]);

function tell(kind, facts) {
  process.stdout.write(`${JSON.stringify({ kind, ...facts })}\n`);
}

function watch(pusher) {
  const { connection } = pusher;
  connection.bind("state_change", ({ current }) =>
    tell("state", { state: current, socket: connection.socket_id ?? null }),
  );
  connection.bind("error", (error) => tell("error", { error: error?.data ?? error?.error?.data ?? null }));
}

function throughPusher() {
  const pusher = new Pusher(key, options);
  watch(pusher);
  for (const name of channels) {
    const channel = pusher.subscribe(name);
    channel.bind("pusher:subscription_succeeded", () => tell("subscribed", { channel: name }));
    channel.bind("pusher:subscription_error", ({ status, type }) =>
      tell("refused", { channel: name, status, type }),
    );
    channel.bind_global((event, data) => {
      if (!event.startsWith("pusher:")) tell("event", { channel: name, event, data });
    });
  }
}

function throughEcho() {
  const echo = new Echo({ broadcaster: "pusher", key, Pusher, ...options });
  watch(echo.connector.pusher);
  for (const name of channels) {
    const plain = name.replace(/^private-/, "");
    const channel = plain === name ? echo.channel(name) : echo.private(plain);
    channel.subscribed(() => tell("subscribed", { channel: name }));
    channel.error(({ status, type }) => tell("refused", { channel: name, status, type }));
    // The dot says that the name is the whole of it, and no class in a PHP namespace.
    for (const event of events) {
      channel.listen(`.${event}`, (data) => tell("event", { channel: name, event, data }));
    }
  }
}

if (library === "echo") throughEcho();
else throughPusher();
process.stdin.on("end", () => process.exit(0));
process.stdin.resume();
