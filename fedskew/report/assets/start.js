show(JSON.parse(document.getElementById("payload").textContent)).then(() => {
  document.documentElement.dataset.ready = "yes";
});
