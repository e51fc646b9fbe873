// node-media-server as a peer: it serves RTMP or RTMPS on loopback and says what it took in.
//
// Standard output carries JSON lines: `listening` with the port, then for each publisher that is
// gone `closed` with the bytes of its connection. Its behaviour is left as it is; its log is
// kept to errors, its store is a folder that the caller throws away.
//
// Usage: node server.js PORT STORE [CERTIFICATE KEY]   (with a certificate: RTMPS)

const NodeMediaServer = require("node-media-server");
const logger = require("node-media-server/src/core/logger.js");

const [port, store, cert, key] = process.argv.slice(2);
const door = { port: Number(port), cert, key };

function say(event, facts) {
  process.stdout.write(JSON.stringify({ event, ...facts }) + "\n");
}

const server = new NodeMediaServer({
  bind: "127.0.0.1",
  store: { path: store },
  webadmin: { enable: false },
  record: { auto: false, path: store },
  notify: { url: "" },
  ...(cert ? { rtmps: door } : { rtmp: door }),
});
logger.level = "error";
// Its own `donePublish` comes only after a while in which the publisher may come back.
server.on("postPublish", (session) => {
  session.socket.once("close", () => say("closed", { bytes: session.inBytes }));
});
const listens = cert ? server.rtmpServer.tlsServer : server.rtmpServer.tcpServer;
listens.on("listening", () => say("listening", { port: door.port }));
server.run();
