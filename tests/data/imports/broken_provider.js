module.exports = class {
  id() { return 'broken'; }
  async callApi(prompt) {
    if (prompt.includes('VPN') || prompt.includes('証明書')) return { error: 'HTTP 503 service unavailable' };
    return { output: prompt, tokenUsage: { total: 30, prompt: 20, completion: 10 }, cost: 0.001 };
  }
};
